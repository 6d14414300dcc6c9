#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/image/codecs/image_format.h"
#include "server/os/files/filesystem.h"
#include "tools/pack/class_list.h"
#include "tools/pack/read_file.h"
#include "tools/pack/record_supply.h"
#include "tools/synth/example.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;

// What SniffFormat looks at.
constexpr size_t kHeadBytes = 64;
// Of the spec that is proposed.
constexpr uint32_t kSide = 224;
constexpr uint64_t kBatchSize = 64;

struct Photo {
  fs::path path;
  int64_t label = 0;
  uint64_t size_bytes = 0;
};

class FolderSupply final : public RecordSupply {
 public:
  static absl::StatusOr<std::unique_ptr<RecordSupply>> Create(const fs::path& folder) {
    auto supply = std::make_unique<FolderSupply>();
    BULKHEAD_RETURN_IF_ERROR(supply->FindClasses(folder));
    BULKHEAD_RETURN_IF_ERROR(supply->FindPhotos(folder));
    if (supply->photos_.empty()) {
      return absl::NotFoundError(absl::StrCat(folder.string(), ": holds no images"));
    }
    return supply;
  }

  uint64_t record_count() const override { return photos_.size(); }
  std::string NameOf(uint64_t index) const override { return photos_[index].path.string(); }
  uint64_t InputBytes(uint64_t index) const override { return photos_[index].size_bytes; }
  uint64_t left_out() const override { return left_out_; }
  std::string identity() const override {
    Sha256 hash;
    hash.Update(absl::StrCat("folder ", labeled_, "\n"));
    for (const Photo& photo : photos_) {
      hash.Update(absl::StrCat(photo.path.string(), " ", photo.size_bytes, "\n"));
    }
    return hash.FinishHex();
  }
  std::unique_ptr<Reader> NewReader() const override {
    return std::make_unique<PhotoReader>(*this);
  }
  v1::PipelineSpec Spec() const override {
    v1::PipelineSpec spec;
    spec.mutable_source()->mutable_tfrecord()->add_files("part-*.tfrecord");
    (*spec.mutable_features())["image"].mutable_bytes();
    if (labeled_) {
      v1::Int64Feature& label = *(*spec.mutable_features())["label"].mutable_int64();
      for (const std::string& name : NamesOfClasses()) label.add_classes(name);
    }
    spec.add_stages()->mutable_decode_image();
    spec.add_stages()->mutable_random_resized_crop()->add_size(kSide);
    spec.add_stages()->mutable_random_horizontal_flip();
    spec.mutable_batch()->set_size(kBatchSize);
    spec.mutable_order()->mutable_global();
    return spec;
  }

 private:
  class PhotoReader final : public Reader {
   public:
    explicit PhotoReader(const FolderSupply& supply) : supply_(supply) {}
    absl::StatusOr<std::string> Read(uint64_t index) override {
      const Photo& photo = supply_.photos_[index];
      BULKHEAD_ASSIGN_OR_RETURN(
          const std::string bytes,
          ReadFileOf(photo.path.string(), photo.path.string(), kMostImageFileBytes));
      ExampleBuilder example;
      example.Bytes("image", bytes);
      if (supply_.labeled_) example.Int64("label", photo.label);
      return example.Serialize();
    }

   private:
    const FolderSupply& supply_;
  };

  // Its sub-folders, if it has nothing else.
  absl::Status FindClasses(const fs::path& folder) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (entry.is_directory()) classes_.push_back(entry.path());
      if (entry.is_regular_file()) labeled_ = false;
    }
    std::sort(classes_.begin(), classes_.end());
    if (error) return absl::NotFoundError(absl::StrCat(folder.string(), ": ", error.message()));
    return absl::OkStatus();
  }

  // All images below it, ordered by path.
  absl::Status FindPhotos(const fs::path& folder) {
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
      if (!entry.is_regular_file()) continue;
      BULKHEAD_ASSIGN_OR_RETURN(const std::string head,
                                ReadPrefix(entry.path().string(), kHeadBytes));
      if (SniffFormat(head) == ImageFormat::kUnknown) {
        ++left_out_;
        continue;
      }
      const auto inside = [&](const fs::path& parent) {
        return std::mismatch(parent.begin(), parent.end(), entry.path().begin()).first ==
               parent.end();
      };
      const auto label = std::find_if(classes_.begin(), classes_.end(), inside);
      photos_.push_back({entry.path(), label - classes_.begin(), entry.file_size(error)});
    }
    if (error) return absl::UnavailableError(absl::StrCat(folder.string(), ": ", error.message()));
    std::sort(photos_.begin(), photos_.end(),
              [](const Photo& a, const Photo& b) { return a.path < b.path; });
    return absl::OkStatus();
  }

  // None if a spec cannot hold them.
  std::vector<std::string> NamesOfClasses() const {
    std::vector<std::string> names;
    for (const fs::path& path : classes_) names.push_back(path.filename().string());
    if (!ClassList::FitsIntoSpec(names)) names.clear();
    return names;
  }

  std::vector<fs::path> classes_;  // by number
  bool labeled_ = true;
  std::vector<Photo> photos_;
  uint64_t left_out_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSupply>> SupplyFolder(const std::string& folder) {
  return FolderSupply::Create(folder);
}

}  // namespace bulkhead::tools

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/utf8.h"
#include "server/image/codecs/image_format.h"
#include "tools/common/json.h"
#include "tools/pack/record_supply.h"
#include "tools/synth/example.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;

// Of the names of classes in a spec, which has at most 1 MiB.
constexpr size_t kMostNamesBytes = 512 << 10;
// What SniffFormat looks at.
constexpr size_t kHeadBytes = 64;

struct Photo {
  fs::path path;
  int64_t label = 0;
};

// The first `most` bytes of a file.
absl::StatusOr<std::string> ReadHead(const fs::path& path, size_t most) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(most, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(most));
  if (!file && !file.eof()) {
    return absl::UnavailableError(absl::StrCat(path.string(), ": cannot be read"));
  }
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

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
  uint64_t left_out() const override { return left_out_; }
  std::string identity() const override {
    Sha256 hash;
    hash.Update(absl::StrCat("folder ", labeled_, "\n"));
    for (const Photo& photo : photos_) {
      std::error_code gone;
      hash.Update(absl::StrCat(photo.path.string(), " ", fs::file_size(photo.path, gone), "\n"));
    }
    return hash.FinishHex();
  }
  std::unique_ptr<Reader> NewReader() const override {
    return std::make_unique<PhotoReader>(*this);
  }
  std::string SpecText() const override {
    return absl::StrCat(
        "source: {tfrecord: {files: \"part-*.tfrecord\"}}\nfeatures: {image: {bytes: {}}",
        LabelFeature(),
        "}\nstages:\n  - decode_image\n  - random_resized_crop: {size: 224}\n"
        "  - random_horizontal_flip\nbatch: {size: 64}\norder: global\n");
  }

 private:
  class PhotoReader final : public Reader {
   public:
    explicit PhotoReader(const FolderSupply& supply) : supply_(supply) {}
    absl::StatusOr<std::string> Read(uint64_t index) override {
      const Photo& photo = supply_.photos_[index];
      std::ifstream file(photo.path, std::ios::binary);
      std::ostringstream bytes;
      bytes << file.rdbuf();
      if (!file)
        return absl::UnavailableError(absl::StrCat(photo.path.string(), ": cannot be read"));
      ExampleBuilder example;
      example.Bytes("image", bytes.str());
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
      BULKHEAD_ASSIGN_OR_RETURN(const std::string head, ReadHead(entry.path(), kHeadBytes));
      if (SniffFormat(head) == ImageFormat::kUnknown) {
        ++left_out_;
        continue;
      }
      const auto inside = [&](const fs::path& parent) {
        return std::mismatch(parent.begin(), parent.end(), entry.path().begin()).first ==
               parent.end();
      };
      const auto label = std::find_if(classes_.begin(), classes_.end(), inside);
      photos_.push_back({entry.path(), label - classes_.begin()});
    }
    if (error) return absl::UnavailableError(absl::StrCat(folder.string(), ": ", error.message()));
    std::sort(photos_.begin(), photos_.end(),
              [](const Photo& a, const Photo& b) { return a.path < b.path; });
    return absl::OkStatus();
  }

  // ", label: …" with the names of the classes, if there are labels. Names that are no text, or
  // more than a spec can hold, are left out.
  std::string LabelFeature() const {
    if (!labeled_) return "";
    std::vector<std::string> quoted;
    bool sayable = true;
    for (const fs::path& path : classes_) {
      const std::string name = path.filename().string();
      sayable = sayable && FirstByteThatIsNoText(name) == absl::string_view::npos;
      quoted.push_back(Quoted(name));
    }
    const std::string names = absl::StrJoin(quoted, ", ");
    if (!sayable || names.size() > kMostNamesBytes) return ", label: int64";
    return absl::StrCat(", label: {int64: {classes: [", names, "]}}");
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

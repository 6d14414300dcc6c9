#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/base/record_name.h"
#include "server/image/codecs/image_format.h"
#include "server/os/files/filesystem.h"
#include "tools/inspect/guess_spec.h"
#include "tools/inspect/image_header.h"
#include "tools/local/stored_files.h"
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
// Of the files that are left out.
constexpr uint64_t kMostNamed = 5;

struct Photo {
  fs::path path;
  int64_t label = 0;
  uint64_t size_bytes = 0;
  int64_t mtime_ns = 0;
  // Of an object.
  uint64_t number = 0;
  std::string key;
};

class FolderSupply final : public RecordSupply {
 public:
  // `stored`: null: the images are files.
  FolderSupply(fs::path folder, std::unique_ptr<StoredFiles> stored)
      : folder_(std::move(folder)), stored_(std::move(stored)) {}

  // To be called once, first.
  absl::Status Find() {
    BULKHEAD_RETURN_IF_ERROR(stored_ == nullptr ? FindPhotos() : FindStored());
    SortPhotos();
    BULKHEAD_RETURN_IF_ERROR(CheckClasses());
    if (!photos_.empty()) return absl::OkStatus();
    const std::string folder = folder_.string();
    if (stored_ == nullptr) {
      return absl::NotFoundError(
          absl::StrCat(Printable(folder), ": holds no images", RecordsIn(folder)));
    }
    return absl::NotFoundError(absl::StrCat(
        ShownUrl(folder),
        ": holds no images, which are told by the endings of their names; to pack records name "
        "their objects, such as '",
        ShownUrl(folder), "/*.tfrecord'"));
  }

  uint64_t record_count() const override { return photos_.size(); }
  std::string NameOf(uint64_t index) const override { return photos_[index].path.string(); }
  uint64_t InputBytes(uint64_t index) const override { return photos_[index].size_bytes; }
  uint64_t left_out() const override { return left_out_; }
  std::map<std::string, Setting> settings() const override { return {}; }
  std::string StateOf(uint64_t index) const override {
    const Photo& photo = photos_[index];
    return absl::StrCat(photo.path.lexically_relative(folder_).string(), "\n",
                        labeled() ? absl::StrCat(photo.label) : "none", " ", photo.size_bytes, " ",
                        photo.mtime_ns, photo.key);
  }
  std::unique_ptr<Reader> NewReader() const override {
    return std::make_unique<PhotoReader>(*this);
  }
  v1::PipelineSpec Spec() const override {
    v1::PipelineSpec spec;
    spec.mutable_source()->mutable_tfrecord()->add_files("part-*.tfrecord");
    (*spec.mutable_features())["image"].mutable_bytes();
    if (labeled()) {
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
  std::vector<std::string> Notes() const override {
    std::vector<std::string> notes;
    if (!others_.empty()) {
      notes.push_back(absl::StrCat(
          "left out: ",
          absl::StrJoin(others_, ", ",
                        [&](std::string* text, const fs::path& path) {
                          text->append(Printable(path.lexically_relative(folder_).string()));
                        }),
          left_out_ > others_.size() ? ", …" : ""));
    }
    return notes;
  }

 private:
  class PhotoReader final : public Reader {
   public:
    explicit PhotoReader(const FolderSupply& supply) : supply_(supply) {
      if (supply.stored_ == nullptr) return;
      stored_.emplace(*supply.stored_,
                      [&supply](uint64_t index) { return supply.photos_[index].number; });
    }
    void WillRead(uint64_t first, uint64_t end) override {
      if (stored_.has_value()) stored_->WillRead(first, end);
    }
    absl::StatusOr<std::string> Read(uint64_t index) override {
      const Photo& photo = supply_.photos_[index];
      const std::string path = photo.path.string();
      BULKHEAD_ASSIGN_OR_RETURN(
          const std::string bytes,
          stored_.has_value() ? stored_->Read(index) : ReadFileOf(path, path, kMostImageFileBytes));
      ExampleBuilder example;
      example.Bytes("image", bytes);
      if (supply_.labeled()) example.Int64("label", photo.label);
      return example.Serialize();
    }

   private:
    const FolderSupply& supply_;
    std::optional<StoredFiles::Reader> stored_;  // absent: they are files
  };

  bool labeled() const { return !classes_.empty() && loose_ == nullptr; }

  // Its sub-folders, and all images below it.
  absl::Status FindPhotos() {
    std::error_code unlisted;
    for (const auto& entry : fs::directory_iterator(folder_, unlisted)) {
      if (entry.is_directory() && !IsHidden(entry)) classes_.push_back(entry.path());
    }
    std::sort(classes_.begin(), classes_.end());
    if (unlisted) {
      return absl::NotFoundError(absl::StrCat(folder_.string(), ": ", unlisted.message()));
    }
    std::error_code error;
    fs::recursive_directory_iterator entry(folder_, error);
    for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
      if (entry->is_directory() && IsHidden(*entry)) entry.disable_recursion_pending();
      if (!entry->is_regular_file()) continue;
      BULKHEAD_ASSIGN_OR_RETURN(const std::string head,
                                ReadPrefix(entry->path().string(), kHeadBytes));
      if (IsHidden(*entry) || SniffFormat(head) == ImageFormat::kUnknown) {
        LeaveOut(entry->path());
        continue;
      }
      BULKHEAD_ASSIGN_OR_RETURN(const FileInfo info, StatFile(entry->path().string()));
      photos_.push_back(
          {entry->path(), ClassOf(entry->path()), info.size_bytes, info.mtime_ns, 0, ""});
    }
    if (error) return absl::UnavailableError(absl::StrCat(folder_.string(), ": ", error.message()));
    return absl::OkStatus();
  }

  // The classes and images among the objects.
  absl::Status FindStored() {
    const ObjectTable& table = stored_->table();
    std::set<fs::path> classes;
    for (const bool labels : {true, false}) {
      for (uint64_t i = 0; i < table.count(); ++i) {
        BULKHEAD_ASSIGN_OR_RETURN(const ObjectTable::Entry entry, table.Get(i));
        const fs::path name = entry.name;
        const fs::path path = folder_ / name;
        if (std::any_of(name.begin(), std::prev(name.end()), IsHiddenName)) continue;
        if (labels) {
          if (name.has_parent_path()) classes.insert(folder_ / *name.begin());
          continue;
        }
        const std::string ending = absl::AsciiStrToLower(name.extension().string());
        const bool is_image = !ending.empty() && UsualExtensions().count(ending.substr(1)) > 0 &&
                              entry.size_bytes > 0;
        if (IsHiddenName(name.filename()) || !is_image) {
          LeaveOut(path);
          continue;
        }
        photos_.push_back({path, ClassOf(path), entry.size_bytes, entry.mtime_ns, i,
                           absl::StrCat(" ", table.KeyOf(entry))});
      }
      if (labels) classes_.assign(classes.begin(), classes.end());
    }
    return absl::OkStatus();
  }

  void LeaveOut(const fs::path& path) {
    if (++left_out_ <= kMostNamed) others_.push_back(path);
  }

  // The number of the class that it lies in; of one that lies beside the classes, their count.
  int64_t ClassOf(const fs::path& path) const {
    const auto inside = [&](const fs::path& parent) {
      return std::mismatch(parent.begin(), parent.end(), path.begin()).first == parent.end();
    };
    return std::find_if(classes_.begin(), classes_.end(), inside) - classes_.begin();
  }

  // By path.
  void SortPhotos() {
    std::sort(photos_.begin(), photos_.end(),
              [](const Photo& a, const Photo& b) { return a.path < b.path; });
    std::sort(others_.begin(), others_.end());
    const auto loose = std::find_if(photos_.begin(), photos_.end(), [&](const Photo& photo) {
      return photo.label == static_cast<int64_t>(classes_.size());
    });
    if (loose != photos_.end()) loose_ = &*loose;
  }

  // That no image lies beside sub-folders with images: these would be classes, and it of none.
  absl::Status CheckClasses() const {
    const bool has_classes = std::any_of(photos_.begin(), photos_.end(), [&](const Photo& photo) {
      return photo.label < static_cast<int64_t>(classes_.size());
    });
    if (loose_ == nullptr || !has_classes) return absl::OkStatus();
    const std::string folder = Printable(folder_.string());
    return MakeError(
        absl::StatusCode::kInvalidArgument, reason::kListInvalid,
        absl::StrCat(Printable(loose_->path.string()),
                     ": lies beside sub-folders with images, which are classes; move it into one, "
                     "or elsewhere, or pack without labels: by a spec with `source: "
                     "{image_folder: {path: ",
                     folder, ", unlabeled: true}}`"),
        {{"file", loose_->path.string()}});
  }

  // As an image_folder passes over: no data, but what a program keeps for itself.
  static bool IsHiddenName(const fs::path& name) { return absl::StartsWith(name.string(), "."); }
  static bool IsHidden(const fs::directory_entry& entry) {
    return IsHiddenName(entry.path().filename());
  }

  // None if a spec cannot hold them.
  std::vector<std::string> NamesOfClasses() const {
    std::vector<std::string> names;
    for (const fs::path& path : classes_) names.push_back(path.filename().string());
    if (!ClassList::FitsIntoSpec(names)) names.clear();
    return names;
  }

  const fs::path folder_;
  std::unique_ptr<StoredFiles> stored_;  // null: they are files
  std::vector<fs::path> classes_;        // by number
  std::vector<Photo> photos_;
  const Photo* loose_ = nullptr;  // the first that lies beside the classes
  uint64_t left_out_ = 0;
  std::vector<fs::path> others_;  // of the files that are left out
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSupply>> SupplyFolder(const std::string& folder,
                                                           std::unique_ptr<StoredFiles> stored) {
  auto supply = std::make_unique<FolderSupply>(folder, std::move(stored));
  BULKHEAD_RETURN_IF_ERROR(supply->Find());
  return supply;
}

}  // namespace bulkhead::tools

#include "server/source/images/image_folder.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/base/nearest_name.h"
#include "server/base/paths/object_url.h"
#include "server/base/record_name.h"
#include "server/source/file.h"
#include "server/source/images/image_rows.h"
#include "server/source/images/stored_images.h"
#include "server/source/roots.h"
#include "server/spec/source_signature.h"

namespace bulkhead {
namespace {

// Often enough that slow storage is not taken for hanging storage.
constexpr uint64_t kProgressRecords = 64;
// Instead of a label.
constexpr int64_t kUnlabeled = -1;
constexpr int64_t kNoClass = -2;

struct Entry {
  std::string name;
  struct stat info;
  bool is_missing = false;  // a link that leads nowhere
  bool is_folder() const { return S_ISDIR(info.st_mode); }
  // Comparing these orders the whole tree by its relative paths' bytes.
  std::string sort_key() const { return is_folder() ? name + "/" : name; }
};

class FolderIndexer {
 public:
  FolderIndexer(const internal::v1::BuildIndex& request, absl::string_view name, int fd,
                const IndexProgressFn& progress)
      : folder_(request.source().image_folder()),
        root_(request.file().path()),
        name_(name),
        roots_(request.roots()),
        keep_missing_(request.keep_missing()),
        rows_(fd),
        progress_(progress) {
    for (const std::string& extension : folder_.extensions()) {
      extensions_.push_back(absl::AsciiStrToLower(extension));
    }
  }

  // Of the objects of a table instead.
  absl::StatusOr<uint64_t> RunOn(const ObjectTable& objects) {
    std::set<std::string> classes;
    for (uint64_t i = 0; i < objects.count(); ++i) {
      BULKHEAD_ASSIGN_OR_RETURN(const ObjectTable::Entry entry, EntryOf(objects, i));
      const size_t slash = entry.name.find('/');
      const bool is_class = slash != absl::string_view::npos && slash > 0;
      if (!is_class || IsHidden(entry.name.substr(0, slash))) continue;
      classes.emplace(entry.name.substr(0, slash));
    }
    BULKHEAD_ASSIGN_OR_RETURN(const Labels labels, NumberClasses({classes.begin(), classes.end()}));
    for (uint64_t i = 0; i < objects.count(); ++i) {
      BULKHEAD_ASSIGN_OR_RETURN(const ObjectTable::Entry entry, EntryOf(objects, i));
      const size_t slash = entry.name.find('/');
      const bool is_in_class = slash != absl::string_view::npos;
      const std::string& name = entry.name;
      if (IsHidden(name) || !IsImage(name) || (!is_in_class && !folder_.unlabeled())) continue;
      BULKHEAD_RETURN_IF_ERROR(ParseObjectUrl(objects.UrlOf(entry)).status());
      if (slash == 0 || absl::StrContains(name, "//")) return EmptyComponent(objects.UrlOf(entry));
      const auto label = labels.find(name.substr(0, slash));
      const int64_t number = folder_.unlabeled()     ? kUnlabeled
                             : label == labels.end() ? kNoClass
                                                     : label->second;
      BULKHEAD_RETURN_IF_ERROR(Add(name, {entry.size_bytes, entry.mtime_ns, i}, number));
    }
    return Finish(0, 0);
  }

  absl::StatusOr<uint64_t> Run() {
    struct stat info;
    if (stat(root_.c_str(), &info) != 0) return FileError(errno, name_, "opened");
    ancestors_.push_back({info.st_dev, info.st_ino});
    BULKHEAD_ASSIGN_OR_RETURN(const std::vector<Entry> entries, List(""));
    if (folder_.unlabeled()) {
      BULKHEAD_RETURN_IF_ERROR(Walk("", entries, kUnlabeled));
    } else {
      BULKHEAD_RETURN_IF_ERROR(WalkClasses(entries));
    }
    const FileIdentity folder = IdentityOf(info);
    return Finish(folder.size_bytes, folder.mtime_ns);
  }

 private:
  using Labels = std::map<std::string, int64_t>;  // numbers, by class

  absl::StatusOr<ObjectTable::Entry> EntryOf(const ObjectTable& objects, uint64_t i) const {
    absl::StatusOr<ObjectTable::Entry> entry = objects.Get(i);
    if (entry.ok()) return entry;
    return MakeError(
        entry.status().code(), reason::kFileUnreadable,
        absl::StrCat(Printable(name_), ": ", entry.status().message(), "; open the stream again"));
  }

  // Whether a component begins with a dot.
  static bool IsHidden(absl::string_view name) {
    return absl::StartsWith(name, ".") || absl::StrContains(name, "/.");
  }

  absl::StatusOr<uint64_t> Finish(uint64_t size_bytes, int64_t mtime_ns) {
    if (rows_.count() == 0) return NoSamples();
    BULKHEAD_RETURN_IF_ERROR(
        rows_.Finish(v1::Source::kImageFolder, paths_.Finish(), size_bytes, mtime_ns));
    return rows_.count();
  }

  // As a path it would be that of another object, or of a file.
  static absl::Status EmptyComponent(const std::string& url) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kListInvalid,
                     absl::StrCat(ShownUrl(url),
                                  ": a folder in its key has no name (\"//\"); rename the object, "
                                  "or name the images in an image_list by their URLs"),
                     {{"file", ShownUrl(url)}});
  }

  absl::Status NoSamples() const {
    const std::string why =
        folder_.unlabeled()
            ? "holds no images; check `extensions`"
            : absl::StrCat(
                  "holds no images in class folders; put each class into a folder of its "
                  "own, or write image_folder: {path: ",
                  Printable(folder_.path()),
                  ", unlabeled: true} for images without labels, and check `extensions`");
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kNoSamples,
                     absl::StrCat(Printable(name_), ": ", why),
                     {{"file", name_}, {"path", "source.image_folder.path"}});
  }

  absl::Status WalkClasses(const std::vector<Entry>& entries) {
    std::vector<std::string> classes;
    for (const Entry& entry : entries) {
      if (entry.is_folder()) classes.push_back(entry.name);
    }
    BULKHEAD_ASSIGN_OR_RETURN(const Labels labels, NumberClasses(std::move(classes)));
    for (const Entry& entry : entries) {
      if (!entry.is_folder()) continue;
      const auto label = labels.find(entry.name);
      BULKHEAD_RETURN_IF_ERROR(
          WalkFolder(entry.name, entry, label == labels.end() ? kNoClass : label->second));
    }
    return absl::OkStatus();
  }

  // The numbers of the folders `found`, or of the spec's classes, whose names become the index's.
  absl::StatusOr<Labels> NumberClasses(std::vector<std::string> found) {
    Labels labels;
    if (folder_.unlabeled()) return labels;
    std::sort(found.begin(), found.end());
    if (!folder_.classes().empty()) {
      found.assign(folder_.classes().begin(), folder_.classes().end());
    }
    BULKHEAD_RETURN_IF_ERROR(rows_.AddNames({{"label", found}}));
    for (const std::string& name : found) {
      labels.emplace(name, static_cast<int64_t>(labels.size()));
    }
    return labels;
  }

  absl::Status NotAClass(const std::string& relative) const {
    const std::string folder = relative.substr(0, relative.find('/'));
    const std::string near =
        NearestName(folder, {folder_.classes().begin(), folder_.classes().end()});
    return Refused(
        reason::kListInvalid, folder,
        absl::StrCat("is not among `classes`; ",
                     near.empty() ? "add it to them, or move it out of the folder"
                                  : absl::StrCat("did you mean `", Printable(near), "`?")));
  }

  // The error of what lies at `relative` in the folder.
  absl::Status Refused(absl::string_view reason, const std::string& relative,
                       absl::string_view what) const {
    return MakeError(absl::StatusCode::kInvalidArgument, reason,
                     absl::StrCat(Printable(JoinPath(name_, relative)), ": ", what),
                     {{"file", relative}});
  }

  absl::Status WalkFolder(const std::string& relative, const Entry& entry, int64_t label) {
    const std::pair<dev_t, ino_t> identity{entry.info.st_dev, entry.info.st_ino};
    if (std::find(ancestors_.begin(), ancestors_.end(), identity) != ancestors_.end()) {
      return Refused(reason::kFileUnreadable, relative,
                     "is a symbolic link to a folder above it; remove it");
    }
    ancestors_.push_back(identity);
    BULKHEAD_ASSIGN_OR_RETURN(const std::vector<Entry> entries, List(relative));
    BULKHEAD_RETURN_IF_ERROR(Walk(relative + "/", entries, label));
    ancestors_.pop_back();
    return absl::OkStatus();
  }

  // `prefix` is empty or ends with a slash.
  absl::Status Walk(const std::string& prefix, const std::vector<Entry>& entries, int64_t label) {
    for (const Entry& entry : entries) {
      const std::string relative = prefix + entry.name;
      if (entry.is_folder()) {
        BULKHEAD_RETURN_IF_ERROR(WalkFolder(relative, entry, label));
      } else if (entry.is_missing || (S_ISREG(entry.info.st_mode) && IsImage(entry.name))) {
        BULKHEAD_RETURN_IF_ERROR(
            Add(relative, entry.is_missing ? ImageRow::kMissing : IdentityOf(entry.info), label));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Add(const std::string& relative, const FileIdentity& image, int64_t label) {
    if (label == kNoClass) return NotAClass(relative);
    const uint64_t bound =
        folder_.max_path_bytes() == 0 ? kDefaultMaxPathBytes : folder_.max_path_bytes();
    if (relative.size() > bound) {
      return Refused(reason::kOverBound, relative,
                     absl::StrCat("its path has ", relative.size(), " bytes, max_path_bytes is ",
                                  bound, "; raise it"));
    }
    paths_.Update(relative);
    paths_.Update(absl::string_view("\0", 1));
    std::string labels;
    if (label != kUnlabeled) AppendLittle<int64_t>(labels, label);
    row_.labels = labels;
    row_.images.assign(1, {relative, image});
    BULKHEAD_RETURN_IF_ERROR(rows_.Add(row_));
    if (progress_ && rows_.count() % kProgressRecords == 0) progress_(rows_.count(), 0);
    return absl::OkStatus();
  }

  bool IsImage(const std::string& name) const {
    const size_t dot = name.rfind('.');
    if (dot == std::string::npos) return false;
    const std::string extension = absl::AsciiStrToLower(name.substr(dot + 1));
    return std::find(extensions_.begin(), extensions_.end(), extension) != extensions_.end();
  }

  // What lies in a folder, links followed, in the order of the walk.
  absl::StatusOr<std::vector<Entry>> List(const std::string& relative) const {
    const std::string path = JoinPath(root_, relative);
    BULKHEAD_RETURN_IF_ERROR(roots_.Check(path, relative.empty() ? name_ : relative).status());
    const std::unique_ptr<DIR, decltype(&closedir)> folder(opendir(path.c_str()), &closedir);
    if (folder == nullptr) return FileError(errno, JoinPath(name_, relative), "opened");
    std::vector<Entry> entries;
    for (;;) {
      errno = 0;
      const dirent* found = readdir(folder.get());
      if (found == nullptr && errno != 0) {
        return FileError(errno, JoinPath(name_, relative), "read");
      }
      if (found == nullptr) break;
      if (found->d_name[0] == '.') continue;
      Entry entry{found->d_name, {}};
      const std::string full = JoinPath(path, entry.name);
      if (stat(full.c_str(), &entry.info) != 0) {
        if (errno == ENOENT && keep_missing_) {
          entry.info = {};
          entry.is_missing = IsImage(entry.name);
          if (entry.is_missing) entries.push_back(std::move(entry));
          continue;
        }
        return FileError(errno, JoinPath(JoinPath(name_, relative), entry.name), "opened");
      }
      if (S_ISREG(entry.info.st_mode) && IsImage(entry.name)) {
        BULKHEAD_RETURN_IF_ERROR(roots_.Check(full, JoinPath(relative, entry.name)).status());
      }
      entries.push_back(std::move(entry));
    }
    std::ranges::sort(entries, {}, &Entry::sort_key);
    return entries;
  }

  const v1::ImageFolderSource& folder_;
  const std::string root_;
  const std::string name_;
  const Roots roots_;
  const bool keep_missing_;
  ImageRowsWriter rows_;
  const IndexProgressFn& progress_;
  std::vector<std::string> extensions_;
  std::vector<std::pair<dev_t, ino_t>> ancestors_;
  Sha256 paths_;
  ImageRow row_;
};

}  // namespace

absl::StatusOr<uint64_t> BuildImageFolderIndex(const internal::v1::BuildIndex& request, int fd,
                                               const IndexProgressFn& progress) {
  const internal::v1::ResolvedFile& resolved = request.file();
  const std::string& name = resolved.name().empty() ? resolved.path() : resolved.name();
  FolderIndexer indexer(request, name, fd, progress);
  if (!resolved.has_table()) return indexer.Run();
  BULKHEAD_ASSIGN_OR_RETURN(const auto objects, OpenTable(resolved.table(), name));
  return indexer.RunOn(*objects);
}

}  // namespace bulkhead

#include "server/data/source_resolver.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"
#include "server/base/nearest_name.h"
#include "server/base/paths/object_url.h"
#include "server/base/paths/straight_path.h"
#include "server/base/record_name.h"
#include "server/base/utf8.h"
#include "server/data/file_names.h"
#include "server/data/published_index.h"
#include "server/os/files/filesystem.h"
#include "server/os/files/glob.h"
#include "server/spec/record_files.h"

namespace bulkhead {

using internal::v1::ResolvedFile;
using internal::v1::ResolvedSource;

namespace {

std::string FolderOf(const std::string& path) {
  return path.substr(0, std::max<size_t>(1, path.rfind('/')));
}

// As many links in a row as Linux follows.
constexpr int kMostLinks = 40;

// The absolute `path` with its existing part's links resolved, and those that lead nowhere.
std::string PlaceOf(const std::string& path, int links = 0) {
  for (std::string begin = path;; begin = FolderOf(begin)) {
    const auto real = RealPath(begin);
    const auto target = real.ok() ? real : ReadLink(begin);
    if (!real.ok() && target.ok() && links < kMostLinks) {
      const std::filesystem::path led = std::filesystem::path(FolderOf(begin)) / *target;
      return PlaceOf(led.string() + path.substr(begin.size()), links + 1);
    }
    if (!real.ok() && begin != "/") continue;
    const std::filesystem::path rest =
        std::filesystem::path(path.substr(begin.size())).relative_path();
    std::string place =
        (std::filesystem::path(real.ok() ? *real : begin) / rest).lexically_normal().string();
    if (place.size() > 1 && place.back() == '/') place.pop_back();
    return place;
  }
}

constexpr char kGlobCharacters[] = "*?[\\";

// A pattern that matches only `path`: wildcards in the spec's own folder have no meaning.
std::string Literally(const std::string& path) {
  std::string pattern;
  for (const char c : path) {
    if (absl::StrContains(kGlobCharacters, c)) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

// Whether a folder holds files with `mark` in their names.
bool HoldsRecords(const std::string& folder, absl::string_view mark) {
  return std::ranges::any_of(
      NamesIn(folder), [&](const std::string& name) { return absl::StrContains(name, mark); });
}

// Whether `path`, with links resolved, lies under a root.
bool LiesInside(const std::string& path, const DataRoots& roots) {
  return roots.unrestricted || std::ranges::any_of(roots.roots, [&](const std::string& root) {
           return IsBeneath(path, root);
         });
}

class Resolver {
 public:
  Resolver(const v1::Source& source, std::string base_dir, const DataRoots& roots,
           const FindObjectsFn& find_objects)
      : source_(source),
        base_dir_(std::move(base_dir)),
        roots_(roots),
        find_objects_(find_objects) {}

  absl::Status NotAllowed(const std::string& path) const;
  // Adds the files that match pattern number `number` of the spec.
  absl::Status AddPattern(const std::string& pattern, size_t number);
  // Adds the file or folder at `path` as `name`; empty: its last component.
  absl::Status AddPath(const std::string& path, bool want_directory, std::string name = "",
                       size_t pattern = 0);
  // Adds a folder of objects. They are not looked at.
  absl::Status AddUrlFolder(const std::string& url);
  // The object that `url` names, without adding it.
  absl::StatusOr<ResolvedFile> FindObject(const std::string& url) const;
  // The same file or folder, without adding it.
  absl::StatusOr<ResolvedFile> FindPath(const std::string& path, bool want_directory,
                                        std::string name = "") const;

  // Returns what was added. SPEC_INVALID if a file was added twice.
  absl::StatusOr<ResolvedSource> Take();

 private:
  // Whether the objects of this valid URL may be read here.
  absl::Status CheckAllowed(const std::string& url) const;
  // Those that match a URL, with their names; never none.
  absl::StatusOr<std::vector<ResolvedFile>> FindObjects(const std::string& pattern) const;
  std::string Absolute(const std::string& path) const {
    return absl::StartsWith(path, "/") ? path : absl::StrCat(base_dir_, "/", path);
  }
  // The same without "..", which does not tell what there is outside the roots.
  std::string Straight(const std::string& path) const;
  // The same for any absolute path, which need not exist.
  bool IsAllowed(const std::string& path) const { return LiesInside(PlaceOf(path), roots_); }
  // What is said of a path that leads nowhere.
  std::string Missing(const std::string& path) const;
  // "; did you mean photos?" of a path or pattern with a component that is nearly there; what lies
  // outside the roots is not looked at.
  std::string NearPath(const std::string& path) const;
  // "; write files: …", a pattern for such files below the spec's folder; empty: none are near.
  std::string NearRecords() const;
  // What is said of a path that is a file where a folder is wanted, or the reverse.
  std::string OfAnotherKind(const std::string& absolute, bool want_directory,
                            const FileInfo& info) const;
  // `absolute` as a spec writes it.
  std::string Written(absl::string_view absolute) const {
    absl::ConsumePrefix(&absolute, absl::StrCat(base_dir_, "/"));
    return Printable(absolute);
  }

  const v1::Source& source_;
  const std::string base_dir_;
  const DataRoots& roots_;
  const FindObjectsFn& find_objects_;
  std::vector<FoundFile> found_;
};

// The name of a path that no pattern found. "." and ".." mean nothing to a reader, so they become
// the last component of `real`.
std::string LastComponent(const std::string& path, const std::string& real) {
  std::string name = NameFromPattern("", path);
  return name.empty() || name == ".." ? NameFromPattern("", real) : name;
}

// FILE_UNREADABLE of `path`, unless `why` has a reason.
absl::Status CannotRead(const std::string& path, const absl::Status& why) {
  if (GetErrorInfo(why).has_value()) return why;
  return MakeError(why.code(), reason::kFileUnreadable, Printable(why.message()), {{"file", path}});
}

// Names are sent in protobuf strings.
absl::Status CheckText(const std::string& name) {
  if (FirstByteThatIsNoText(name) == absl::string_view::npos) return absl::OkStatus();
  const std::string printable = Printable(name);
  return MakeError(absl::StatusCode::kFailedPrecondition, reason::kFileUnreadable,
                   absl::StrCat("the name of ", printable, " is not UTF-8; rename it"),
                   {{"file", printable}});
}

std::string Resolver::Straight(const std::string& path) const {
  if (roots_.unrestricted) return Absolute(path);
  return StraightPath(Absolute(path), [this](const std::string& folder) {
    const auto real = RealPath(folder);
    return real.ok() && LiesInside(*real, roots_) ? *real : "";
  });
}

absl::Status Resolver::NotAllowed(const std::string& path) const {
  return MakeError(
      absl::StatusCode::kPermissionDenied, reason::kPathNotAllowed,
      absl::StrCat(Printable(Absolute(path)),
                   roots_.roots.empty()
                       ? " may not be read: this service has no data roots; start "
                         "it with --root FOLDER"
                       : " lies outside the data roots of this service; start "
                         "bulkheadd with --root FOLDER for its folder, too, or move it"),
      {{"file", path}});
}

std::string Resolver::Missing(const std::string& path) const {
  const std::string missing = absl::StrCat(Printable(Absolute(path)), " does not exist");
  if (absl::StartsWith(path, "~") || absl::StrContains(path, "$")) {
    return absl::StrCat(missing,
                        "; `~` and `$` are not expanded here: write the whole path, "
                        "such as /home/NAME/",
                        Printable(LastComponent(path, path)));
  }
  const std::string near = NearPath(path);
  if (!near.empty() || absl::StartsWith(path, "/")) return missing + near;
  return missing + "; relative paths start from the spec's folder";
}

std::string Resolver::NearPath(const std::string& path) const {
  const std::filesystem::path whole(path);
  std::filesystem::path there;
  for (auto part = whole.begin(); part != whole.end(); there /= *part++) {
    const auto folder = RealPath(Absolute(there.string()));
    if (!folder.ok() || !LiesInside(*folder, roots_) ||
        part->string().find_first_of(kGlobCharacters) != std::string::npos) {
      return "";
    }
    if (RealPath(Absolute((there / *part).string())).ok()) continue;
    const std::string near = NearestName(part->string(), NamesIn(*folder));
    if (near.empty()) return "";
    if (near == part->string()) return ": it is a link that leads nowhere";
    std::filesystem::path meant = there / near;
    for (++part; part != whole.end(); ++part) meant /= *part;
    return absl::StrCat("; did you mean ", Printable(meant.string()), "?");
  }
  return "";
}

std::string Resolver::NearRecords() const {
  constexpr size_t kMostFolders = 100;
  const absl::string_view mark = UsualMark(source_);
  if (!IsAllowed(base_dir_)) return "";
  std::vector<std::string> folders = NamesIn(base_dir_);
  std::sort(folders.begin(), folders.end());
  folders.resize(std::min(folders.size(), kMostFolders));
  for (const std::string& name : folders) {
    const std::string folder = Absolute(name);
    if (IsAllowed(folder) && HoldsRecords(folder, mark)) {
      return absl::StrCat("; write files: \"", Printable(name), "/*", mark, "*\"");
    }
  }
  return HoldsRecords(base_dir_, mark) ? absl::StrCat("; write files: \"*", mark, "*\"") : "";
}

std::string Resolver::OfAnotherKind(const std::string& absolute, bool want_directory,
                                    const FileInfo& info) const {
  if (want_directory) {
    return " is not a folder; a list of images is an image_list, records are a tfrecord or tar "
           "source";
  }
  if (!info.is_directory) return " is not a regular file";
  if (!HasRecordFiles(source_)) {
    return " is a folder, not a list; a folder of images is an image_folder source";
  }
  const std::string folder =
      HoldsRecords(absolute, UsualMark(source_)) ? absolute : FolderOf(absolute);
  return absl::StrCat(" is a folder; write a pattern that only files match, such as files: \"",
                      Written(folder), "/*.", RecordFilesOf(source_).kind, "\"");
}

// Whether a pattern leads upwards behind its first wildcard, out of what it began in. A backslash
// there leaves a character as it is.
bool LeadsUpwards(const std::string& pattern) {
  const std::string rest = absl::StrCat(
      pattern.substr(std::min(pattern.size(), pattern.find_first_of(kGlobCharacters))), "/");
  return absl::StrContains(absl::StrReplaceAll(rest, {{"\\", ""}}), "/../");
}

// Whether a pattern found a published index, which is no data, only because it found its object.
bool IsIndexOfOther(absl::string_view pattern, absl::string_view found) {
  return absl::EndsWith(found, kPublishedEnding) && !absl::EndsWith(pattern, kPublishedEnding);
}

absl::Status Resolver::CheckAllowed(const std::string& url) const {
  if (!find_objects_) {
    return MakeError(absl::StatusCode::kPermissionDenied, reason::kPathNotAllowed,
                     absl::StrCat(ShownUrl(url),
                                  ": this command reads the data in its own process, and only "
                                  "files there; `bulkhead stream` shows what a "
                                  "service reads of it, or copy it to this host"),
                     {{"file", ShownUrl(url)}});
  }
  const bool allowed =
      roots_.unrestricted || std::ranges::any_of(roots_.roots, [&](const std::string& root) {
        return IsBelowUrl(url, root);
      });
  return allowed ? absl::OkStatus() : UrlNotAllowed(url);
}

absl::Status Resolver::AddUrlFolder(const std::string& url) {
  // Its objects are listed with each index of it.
  ResolvedFile folder;
  folder.set_path(absl::StrCat(absl::StripSuffix(url, "/"), "/"));
  folder.set_name(NameFromPattern("", url));
  BULKHEAD_RETURN_IF_ERROR(ParseFolderUrl(url).status());
  BULKHEAD_RETURN_IF_ERROR(CheckAllowed(folder.path()));
  found_.push_back({0, std::move(folder)});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ResolvedFile>> Resolver::FindObjects(const std::string& pattern) const {
  BULKHEAD_RETURN_IF_ERROR(ParseObjectUrl(pattern).status());
  BULKHEAD_RETURN_IF_ERROR(CheckAllowed(pattern));
  BULKHEAD_ASSIGN_OR_RETURN(std::vector<ResolvedFile> objects, find_objects_(pattern));
  std::erase_if(objects, [&](const ResolvedFile& object) {
    return IsIndexOfOther(pattern, object.object().url());
  });
  if (objects.empty()) {
    return MakeError(
        absl::StatusCode::kNotFound, reason::kFileNotFound,
        absl::StrCat("no object matches ", ShownUrl(pattern), "; wildcards do not cross `/`"),
        {{"file", ShownUrl(pattern)}});
  }
  for (ResolvedFile& object : objects) {
    // A signature in a query changes, and is a secret.
    const std::string& url = object.object().url();
    object.set_name(
        absl::StrCat(NameFromPattern(WithoutQuery(pattern), WithoutQuery(url)), QueryMark(url)));
    BULKHEAD_RETURN_IF_ERROR(CheckText(object.name()));
  }
  return objects;
}

absl::StatusOr<ResolvedFile> Resolver::FindObject(const std::string& url) const {
  BULKHEAD_ASSIGN_OR_RETURN(std::vector<ResolvedFile> objects, FindObjects(url));
  return std::move(objects[0]);
}

absl::Status Resolver::AddPattern(const std::string& pattern, size_t number) {
  if (IsObjectUrl(pattern)) {
    BULKHEAD_ASSIGN_OR_RETURN(std::vector<ResolvedFile> objects, FindObjects(pattern));
    for (ResolvedFile& object : objects) found_.push_back({number, std::move(object)});
    return absl::OkStatus();
  }
  // After the last slash before a wildcard.
  const size_t rest = pattern.substr(0, pattern.find_first_of(kGlobCharacters)).rfind('/') + 1;
  const std::string folder = Straight(pattern.substr(0, rest));
  const std::string begin(absl::StripSuffix(folder, "/"));
  // A pattern that begins above a root would reveal what is beside the root.
  if (!IsAllowed(folder)) return NotAllowed(pattern);
  if (!roots_.unrestricted && LeadsUpwards(pattern)) return NotAllowed(pattern);
  // Whatever characters it has, and whatever those of the spec's folder.
  const std::string written = absl::StrCat(begin, "/", pattern.substr(rest));
  if (IsAllowed(written) && StatFile(written).ok()) return AddPath(written, false, "", number);
  // A path outside the roots gets the same error as one that does not exist.
  auto paths = ExpandGlob(absl::StrCat(Literally(begin), "/", pattern.substr(rest)), {},
                          [this](const std::string& next) {
                            return IsAllowed(next) ? absl::OkStatus() : NotAllowed(next);
                          });
  if (!paths.ok()) return CannotRead(pattern, paths.status());
  // A copy of a bucket has the same data as the bucket.
  std::erase_if(*paths, [&](const std::string& path) { return IsIndexOfOther(pattern, path); });
  if (paths->empty()) {
    // As shells and WebDataset write shards.
    const bool has_braces = absl::StrContains(pattern, "{") && absl::StrContains(pattern, "}");
    const std::string near =
        has_braces ? "; braces are not expanded: write * in their place" : NearPath(pattern);
    return MakeError(
        absl::StatusCode::kNotFound, reason::kFileNotFound,
        absl::StrCat("no file matches ", Printable(pattern), " (looked for ",
                     Printable(Absolute(pattern)), "; relative paths start from the spec's folder)",
                     near.empty() ? NearRecords() : near),
        {{"file", pattern}});
  }
  for (const std::string& path : *paths) {
    BULKHEAD_RETURN_IF_ERROR(AddPath(path, false, NameFromPattern(pattern, path), number));
  }
  return absl::OkStatus();
}

absl::Status Resolver::AddPath(const std::string& path, bool want_directory, std::string name,
                               size_t pattern) {
  BULKHEAD_ASSIGN_OR_RETURN(ResolvedFile file, FindPath(path, want_directory, std::move(name)));
  found_.push_back({pattern, std::move(file)});
  return absl::OkStatus();
}

absl::StatusOr<ResolvedFile> Resolver::FindPath(const std::string& path, bool want_directory,
                                                std::string name) const {
  const std::string absolute = Absolute(path);
  const std::string straight = Straight(path);
  const auto real = RealPath(straight);
  if (!real.ok() && !IsAllowed(straight)) return NotAllowed(path);
  if (absl::IsNotFound(real.status()) && !GetErrorInfo(real.status()).has_value()) {
    return MakeError(absl::StatusCode::kNotFound, reason::kFileNotFound, Missing(path),
                     {{"file", path}});
  }
  if (!real.ok()) return CannotRead(path, real.status());
  BULKHEAD_RETURN_IF_ERROR(CheckText(absolute));
  BULKHEAD_RETURN_IF_ERROR(CheckText(*real));
  if (!LiesInside(*real, roots_)) return NotAllowed(path);
  const auto info = StatFile(*real);
  if (!info.ok()) return CannotRead(path, info.status());
  if (want_directory ? !info->is_directory : !info->is_regular) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, reason::kFileUnreadable,
        absl::StrCat(Printable(absolute), OfAnotherKind(absolute, want_directory, *info)),
        {{"file", path}});
  }
  if (name.empty()) name = LastComponent(path, *real);
  ResolvedFile file;
  file.set_path(*real);
  file.set_name(std::move(name));
  file.set_size_bytes(info->size_bytes);
  file.set_mtime_ns(info->mtime_ns);
  // Pipelines that name the same files share workers.
  if (HasLastingInodes(*real)) file.set_inode(info->inode);
  return file;
}

// Of a list or folder; empty: none.
const std::string& ClassesFile(const v1::Source& source) {
  return source.has_image_folder() ? source.image_folder().classes_file()
                                   : source.image_list().classes_file();
}

absl::StatusOr<ResolvedSource> Resolver::Take() {
  std::set<absl::string_view> paths;
  for (const FoundFile& found : found_) {
    if (paths.insert(found.file.path()).second) continue;
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                     absl::StrCat("source.", RecordFilesOf(source_).kind, ".files names ",
                                  Printable(found.file.name()), " twice"),
                     {{"file", found.file.name()}});
  }
  NameAndSort(found_);
  ResolvedSource resolved;
  for (FoundFile& found : found_) *resolved.add_files() = std::move(found.file);
  resolved.set_base_dir(base_dir_);
  for (const std::string& root : roots_.roots) resolved.add_roots(root);
  return resolved;
}

}  // namespace

absl::StatusOr<ResolvedSource> ResolveSource(const v1::Source& source, const std::string& base_dir,
                                             const DataRoots& roots,
                                             const FindObjectsFn& find_objects) {
  std::string base =
      base_dir.empty() ? (roots.roots.empty() ? "/" : roots.roots.front()) : base_dir;
  if (!absl::StartsWith(base, "/")) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kProtocolViolation,
                     absl::StrCat("base_dir must be absolute, not ", base));
  }
  // A base folder missing here matters only to relative paths, which then fail.
  if (auto real = RealPath(base); real.ok() && LiesInside(*real, roots)) base = *std::move(real);
  BULKHEAD_RETURN_IF_ERROR(CheckText(base));
  Resolver resolver(source, base, roots, find_objects);
  if (HasRecordFiles(source)) {
    const RecordFiles records = RecordFilesOf(source);
    for (int i = 0; i < records.files->size(); ++i) {
      BULKHEAD_RETURN_IF_ERROR(
          Annotate(resolver.AddPattern(records.files->Get(i), static_cast<size_t>(i)), "",
                   {{"path", absl::StrCat("source.", records.kind, ".files[", i, "]")}}));
    }
  } else if (source.has_image_folder()) {
    const std::string& path = source.image_folder().path();
    BULKHEAD_RETURN_IF_ERROR(
        Annotate(IsObjectUrl(path) ? resolver.AddUrlFolder(path) : resolver.AddPath(path, true), "",
                 {{"path", "source.image_folder.path"}}));
  } else if (const std::string& path = source.image_list().path(); !path.empty()) {
    BULKHEAD_RETURN_IF_ERROR(
        Annotate(IsObjectUrl(path) ? resolver.AddPattern(path, 0) : resolver.AddPath(path, false),
                 "", {{"path", "source.image_list.path"}}));
  } else if (source.has_image_list() && !roots.unrestricted && roots.roots.empty()) {
    return resolver.NotAllowed("source.image_list.entries");
  }
  BULKHEAD_ASSIGN_OR_RETURN(ResolvedSource resolved, resolver.Take());
  if (const std::string& classes = ClassesFile(source); !classes.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(*resolved.mutable_classes(), IsObjectUrl(classes)
                                                               ? resolver.FindObject(classes)
                                                               : resolver.FindPath(classes, false));
  }
  if (source.has_range()) AddRootsOfRange(roots, resolved);
  return resolved;
}

void AddRootsOfRange(const DataRoots& roots, ResolvedSource& resolved) {
  resolved.clear_roots();
  if (roots.unrestricted) resolved.add_roots("/");
  for (const std::string& root : roots.roots) resolved.add_roots(root);
}

}  // namespace bulkhead

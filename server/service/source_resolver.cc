#include "server/service/source_resolver.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/base/utf8.h"
#include "server/os/filesystem.h"

namespace bulkhead {
namespace {

std::string FolderOf(const std::string& path) {
  return path.substr(0, std::max<size_t>(1, path.rfind('/')));
}

// Where `path`, which is absolute, leads: what exists of it with its links resolved, and the rest
// as it is spelt.
std::string PlaceOf(const std::string& path) {
  for (std::string begin = path;; begin = FolderOf(begin)) {
    const auto real = RealPath(begin);
    if (!real.ok() && begin != "/") continue;
    const std::filesystem::path rest =
        std::filesystem::path(path.substr(begin.size())).relative_path();
    std::string place =
        (std::filesystem::path(real.ok() ? *real : begin) / rest).lexically_normal().string();
    if (place.size() > 1 && place.back() == '/') place.pop_back();
    return place;
  }
}

class Resolver {
 public:
  Resolver(std::string base_dir, const DataRoots& roots)
      : base_dir_(std::move(base_dir)), roots_(roots) {}

  absl::Status AddPattern(const std::string& pattern);
  absl::Status AddPath(const std::string& path, bool want_directory);

  internal::v1::ResolvedSource Take() {
    resolved_.set_base_dir(base_dir_);
    for (const std::string& root : roots_.roots) resolved_.add_roots(root);
    return std::move(resolved_);
  }

 private:
  std::string Absolute(const std::string& path) const {
    return absl::StartsWith(path, "/") ? path : absl::StrCat(base_dir_, "/", path);
  }
  // The root above a resolved path; absent when none allows it.
  std::optional<std::string> RootOf(const std::string& path) const;
  // Whether `path`, of which not everything need exist, lies beneath a root.
  bool IsAllowed(const std::string& path) const { return RootOf(PlaceOf(path)).has_value(); }
  absl::Status NotAllowed(const std::string& path) const;

  const std::string base_dir_;
  const DataRoots& roots_;
  internal::v1::ResolvedSource resolved_;
};

// Names travel in messages of text.
absl::Status CheckText(const std::string& name) {
  if (FirstByteThatIsNoText(name) == absl::string_view::npos) return absl::OkStatus();
  const std::string printable = Printable(name);
  return MakeError(absl::StatusCode::kFailedPrecondition, reason::kFileUnreadable,
                   absl::StrCat("the name of ", printable, " is not UTF-8; rename it"),
                   {{"file", printable}});
}

std::optional<std::string> Resolver::RootOf(const std::string& path) const {
  if (roots_.unrestricted) return "/";
  for (const std::string& root : roots_.roots) {
    if (IsBeneath(path, root)) return root;
  }
  return std::nullopt;
}

absl::Status Resolver::NotAllowed(const std::string& path) const {
  return MakeError(
      absl::StatusCode::kPermissionDenied, reason::kPathNotAllowed,
      absl::StrCat(Printable(Absolute(path)),
                   roots_.roots.empty() ? " may not be read: this service has no data roots; start "
                                          "it with --root FOLDER"
                                        : " lies outside the data roots of this service"),
      {{"file", path}});
}

absl::Status Resolver::AddPattern(const std::string& pattern) {
  const std::string absolute = Absolute(pattern);
  const std::string begin = FolderOf(absolute.substr(0, absolute.find_first_of("*?[\\")));
  const std::string place = PlaceOf(begin);
  const bool begins_inside = RootOf(place).has_value();
  const bool may_lead_inside =
      std::any_of(roots_.roots.begin(), roots_.roots.end(),
                  [&](const std::string& root) { return IsBeneath(root, place); });
  if (!begins_inside && !may_lead_inside) return NotAllowed(pattern);
  const auto paths = ExpandGlob(absolute);
  if (GetErrorInfo(paths.status()).has_value()) return paths.status();
  if (!paths.ok()) {
    return MakeError(paths.status().code(), reason::kFileUnreadable,
                     Printable(paths.status().message()), {{"file", pattern}});
  }
  // What lies outside is not named, nor is it told from what does not exist.
  std::set<std::string> folders;
  for (const std::string& path : *paths) folders.insert(FolderOf(path));
  const bool leads_outside =
      std::any_of(folders.begin(), folders.end(),
                  [&](const std::string& folder) { return !IsAllowed(folder); });
  if (leads_outside || (paths->empty() && !begins_inside)) return NotAllowed(pattern);
  if (paths->empty()) {
    return MakeError(
        absl::StatusCode::kNotFound, reason::kFileNotFound,
        absl::StrCat("no file matches ", Printable(pattern), " (looked for ", Printable(absolute),
                     "); relative paths start from the spec's folder"),
        {{"file", pattern}});
  }
  for (const std::string& path : *paths) BULKHEAD_RETURN_IF_ERROR(AddPath(path, false));
  return absl::OkStatus();
}

absl::Status Resolver::AddPath(const std::string& path, bool want_directory) {
  const std::string absolute = Absolute(path);
  const auto real = RealPath(absolute);
  if (!real.ok() && !IsAllowed(absolute)) return NotAllowed(path);
  if (GetErrorInfo(real.status()).has_value()) return real.status();
  if (!real.ok()) {
    const bool missing = absl::IsNotFound(real.status());
    return MakeError(real.status().code(),
                     missing ? reason::kFileNotFound : reason::kFileUnreadable,
                     missing ? absl::StrCat(Printable(absolute), " does not exist")
                             : Printable(real.status().message()),
                     {{"file", path}});
  }
  BULKHEAD_RETURN_IF_ERROR(CheckText(absolute));
  BULKHEAD_RETURN_IF_ERROR(CheckText(*real));
  const auto root = RootOf(*real);
  if (!root.has_value()) return NotAllowed(path);
  const auto info = StatFile(*real);
  if (GetErrorInfo(info.status()).has_value()) return info.status();
  if (!info.ok()) {
    return MakeError(info.status().code(), reason::kFileUnreadable,
                     Printable(info.status().message()), {{"file", path}});
  }
  if (want_directory ? !info->is_directory : !info->is_regular) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, reason::kFileUnreadable,
        absl::StrCat(Printable(absolute), " is not a ", want_directory ? "folder" : "regular file"),
        {{"file", path}});
  }
  internal::v1::ResolvedFile& file = *resolved_.add_files();
  const std::string& name_root = IsBeneath(*real, base_dir_) ? base_dir_ : *root;
  file.set_path(*real);
  // Outside of every folder that could give it a shorter one, a file's name is its path.
  file.set_name(*real == name_root ? "."
                : name_root == "/" ? *real
                                   : real->substr(name_root.size() + 1));
  file.set_size_bytes(info->size_bytes);
  file.set_mtime_ns(info->mtime_ns);
  // Workers are shared by all who name the same files.
  if (HasLastingInodes(*real)) file.set_inode(info->inode);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<internal::v1::ResolvedSource> ResolveSource(const v1::Source& source,
                                                           const std::string& base_dir,
                                                           const DataRoots& roots) {
  std::string base =
      base_dir.empty() ? (roots.roots.empty() ? "/" : roots.roots.front()) : base_dir;
  if (!absl::StartsWith(base, "/")) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kProtocolViolation,
                     absl::StrCat("base_dir must be absolute, not ", base));
  }
  // A base folder that this machine does not have only matters to relative paths, which will say
  // so.
  if (auto real = RealPath(base); real.ok()) base = *std::move(real);
  BULKHEAD_RETURN_IF_ERROR(CheckText(base));
  Resolver resolver(base, roots);
  switch (source.source_case()) {
    case v1::Source::kTfrecord:
      for (const std::string& pattern : source.tfrecord().files()) {
        BULKHEAD_RETURN_IF_ERROR(resolver.AddPattern(pattern));
      }
      break;
    case v1::Source::kImageList:
      if (!source.image_list().path().empty()) {
        BULKHEAD_RETURN_IF_ERROR(resolver.AddPath(source.image_list().path(), false));
      }
      break;
    case v1::Source::kImageFolder:
      BULKHEAD_RETURN_IF_ERROR(resolver.AddPath(source.image_folder().path(), true));
      break;
    default:
      break;
  }
  internal::v1::ResolvedSource resolved = resolver.Take();
  if (source.has_range()) AddRootsOfRange(roots, resolved);
  if (source.has_tfrecord()) {
    // Several patterns may name a file twice, and each sorts for itself.
    auto& files = *resolved.mutable_files();
    std::sort(files.begin(), files.end(),
              [](const auto& a, const auto& b) { return a.path() < b.path(); });
    const auto same =
        std::adjacent_find(files.begin(), files.end(),
                           [](const auto& a, const auto& b) { return a.path() == b.path(); });
    if (same != files.end()) {
      return MakeError(
          absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
          absl::StrCat("source.tfrecord.files names ", Printable(same->name()), " twice"),
          {{"file", same->name()}});
    }
  }
  return resolved;
}

void AddRootsOfRange(const DataRoots& roots, internal::v1::ResolvedSource& resolved) {
  resolved.clear_roots();
  if (roots.unrestricted) resolved.add_roots("/");
  for (const std::string& root : roots.roots) resolved.add_roots(root);
}

}  // namespace bulkhead

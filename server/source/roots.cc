#include "server/source/roots.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/paths/straight_path.h"
#include "server/base/record_name.h"

namespace bulkhead {
namespace {

// As many links in a row as Linux follows.
constexpr int kMostLinks = 40;

// `path` with symbolic links resolved; empty, with errno set, when that fails.
std::string Resolve(const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> resolved(realpath(path.c_str(), nullptr), &free);
  if (resolved == nullptr && errno == ENOMEM) throw std::bad_alloc();
  return resolved == nullptr ? std::string() : std::string(resolved.get());
}

absl::Status NotAllowed(absl::string_view name) {
  return FileFault(absl::StatusCode::kPermissionDenied, reason::kPathNotAllowed, name,
                   "lies outside the folders that this service may read (its data roots); start "
                   "bulkheadd with --root FOLDER for its folder, too, or move it");
}

// Whether the open file `fd` lies at `path`, which then leads through no links. False when that
// cannot be told.
bool LiesAt(int fd, absl::string_view path) {
  char link[32];
  char found[4096];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, found, sizeof(found));
  return size > 0 && path == absl::string_view(found, static_cast<size_t>(size));
}

}  // namespace

absl::StatusOr<DataFile> OpenBeneath(const std::string& root, const std::string& relative,
                                     absl::string_view name, bool ask_kernel) {
  const UniqueFd folder = OpenFd(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (!folder) return FileError(errno, name, "opened");
  open_how how{};
  how.flags = DataFile::kOpenFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  UniqueFd fd;
  int error = ENOSYS;
  while (ask_kernel) {
    fd.reset(
        static_cast<int>(syscall(SYS_openat2, folder.get(), relative.c_str(), &how, sizeof(how))));
    error = fd ? 0 : errno;
    if (error != EINTR && error != EAGAIN) break;  // EAGAIN: a rename on its way
  }
  // A kernel before 5.6, or a sandbox, which cannot see what openat2 is asked for.
  if (error == ENOSYS || error == EPERM) {
    fd.reset(openat(folder.get(), relative.c_str(), DataFile::kOpenFlags));
    error = fd ? 0 : errno;
    if (fd && !LiesAt(fd.get(), absl::StrCat(root, relative))) error = EXDEV;
  }
  if (error == EXDEV || error == ELOOP) return NotAllowed(name);
  if (error != 0) return FileError(error, name, "opened");
  return DataFile::Take(std::move(fd), name);
}

Roots::Roots(const google::protobuf::RepeatedPtrField<std::string>& roots)
    : everything_(roots.empty()) {
  for (const std::string& root : roots) {
    std::string resolved = Resolve(root);
    if (resolved.empty()) continue;  // nothing can lie under a folder that is not there
    if (!absl::EndsWith(resolved, "/")) resolved += '/';
    roots_.push_back(std::move(resolved));
  }
}

const std::string* Roots::RootOf(const std::string& resolved) const {
  const auto holds = [&](const std::string& root) {
    return absl::StartsWith(resolved, root) || absl::StrCat(resolved, "/") == root;
  };
  const auto root = std::find_if(roots_.begin(), roots_.end(), holds);
  return root == roots_.end() ? nullptr : &*root;
}

bool Roots::LeadsInside(std::string path) const {
  std::string resolved;
  int links = 0;
  while (resolved.empty() && path.find('/') != std::string::npos) {
    // A link to what is not there leads somewhere, too.
    std::error_code no_link;
    const std::filesystem::path target = std::filesystem::read_symlink(path, no_link);
    path.resize(path.rfind('/'));
    if (!no_link && ++links <= kMostLinks) {
      path = (std::filesystem::path(path + "/") / target).string();
    }
    resolved = Resolve(path.empty() ? "/" : path);
  }
  return RootOf(resolved) != nullptr;
}

absl::StatusOr<Roots::Place> Roots::Find(const std::string& path, absl::string_view name) const {
  const std::string straight = StraightPath(path, [this](const std::string& folder) {
    const std::string place = Resolve(folder);
    return RootOf(place) == nullptr ? "" : place;
  });
  std::string resolved = Resolve(straight);
  if (resolved.empty()) {
    const int error = errno;
    // A caller does not learn what exists in places that it may not read.
    return LeadsInside(straight) ? FileError(error, name, "found") : NotAllowed(name);
  }
  const std::string* const root = RootOf(resolved);
  if (root == nullptr) return NotAllowed(name);
  return Place{std::move(resolved), *root};
}

absl::StatusOr<std::string> Roots::Check(const std::string& path, absl::string_view name) const {
  if (everything_) return path;
  BULKHEAD_ASSIGN_OR_RETURN(Place place, Find(path, name));
  return std::move(place.resolved);
}

absl::StatusOr<DataFile> Roots::Open(const std::string& path, absl::string_view name) const {
  if (everything_) return DataFile::Open(path, name);
  // Nearly all paths are without links, which is seen by where they lead.
  for (const std::string& root : roots_) {
    if (!absl::StartsWith(path, root)) continue;
    // Where it leads is seen before it is opened to be read, which may have effects on a device.
    UniqueFd place(open(path.c_str(), O_PATH | O_CLOEXEC));
    if (!place || !LiesAt(place.get(), path)) break;
    place.reset();
    UniqueFd fd(open(path.c_str(), DataFile::kOpenFlags));
    if (fd && LiesAt(fd.get(), path)) return DataFile::Take(std::move(fd), name);
    break;
  }
  BULKHEAD_ASSIGN_OR_RETURN(const Place place, Find(path, name));
  // The root itself, a folder, is refused as one.
  if (place.resolved.size() < place.root.size()) return DataFile::Open(place.resolved, name);
  return OpenBeneath(place.root, place.resolved.substr(place.root.size()), name);
}

}  // namespace bulkhead

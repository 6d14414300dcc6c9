#include "server/os/files/filesystem.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <ctime>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/os/files/random_name.h"
#include "server/os/files/storage_watch.h"

namespace bulkhead {

absl::StatusOr<FileInfo> StatFile(const std::string& path) {
  const StorageCall call(path);
  if (!call.status().ok()) return call.status();
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return SystemError(errno, path);
  FileInfo file;
  file.size_bytes = static_cast<uint64_t>(info.st_size);
  file.mtime_ns = static_cast<int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
  file.inode = static_cast<uint64_t>(info.st_ino);
  file.is_directory = S_ISDIR(info.st_mode);
  file.is_regular = S_ISREG(info.st_mode);
  return file;
}

absl::StatusOr<std::string> RealPath(const std::string& path) {
  const StorageCall call(path);
  if (!call.status().ok()) return call.status();
  char resolved[PATH_MAX];
  if (realpath(path.c_str(), resolved) == nullptr) return SystemError(errno, path);
  return std::string(resolved);
}

absl::StatusOr<std::string> ReadLink(const std::string& path) {
  const StorageCall call(path);
  if (!call.status().ok()) return call.status();
  char target[PATH_MAX];
  const ssize_t size = readlink(path.c_str(), target, sizeof(target));
  if (size < 0) return SystemError(errno, path);
  return std::string(target, static_cast<size_t>(size));
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  DIR* const listing = opendir(folder.c_str());
  if (listing == nullptr) return names;
  while (const dirent* entry = readdir(listing)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(listing);
  return names;
}

bool IsBeneath(absl::string_view path, absl::string_view root) {
  if (root == "/") return absl::StartsWith(path, "/");
  return absl::StartsWith(path, root) && (path.size() == root.size() || path[root.size()] == '/');
}

absl::Status MakeDirectories(const std::string& path) {
  const StorageCall call(path);
  if (!call.status().ok()) return call.status();
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return SystemError(errno, absl::StrCat("making folder ", part));
    }
    if (end == std::string::npos) break;
  }
  BULKHEAD_ASSIGN_OR_RETURN(const FileInfo info, StatFile(path));
  if (!info.is_directory)
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a folder"));
  return absl::OkStatus();
}

absl::Status CheckPrivateFolder(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return SystemError(errno, path);
  if (!S_ISDIR(info.st_mode) || info.st_uid != getuid() || (info.st_mode & 022) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, " is not a folder that belongs to this user alone"));
  }
  return absl::OkStatus();
}

namespace {

// Why a file or folder with this owner and mode cannot be trusted, and the remedy. `closed`:
// permissions that others must not have.
absl::Status CheckOwner(const struct stat& info, const std::string& path, mode_t closed = 077) {
  if (info.st_uid != geteuid()) {
    return absl::PermissionDeniedError(absl::StrCat(path, " belongs to user ", info.st_uid,
                                                    ", not to this service's user ", geteuid()));
  }
  if ((info.st_mode & closed) != 0) {
    return absl::PermissionDeniedError(absl::StrFormat(
        "%s is open to other users (mode %04o); if you trust its content: chmod go= %s", path,
        info.st_mode & 07777, path));
  }
  return absl::OkStatus();
}

// A path's folder and last component.
std::pair<std::string, std::string> SplitPath(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {path.substr(0, std::max<size_t>(slash, 1)), path.substr(slash + 1)};
}

// Opens a folder if, at this moment, no other user may write to it.
absl::StatusOr<UniqueFd> OpenOwnFolder(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat info;
  if (!fd || fstat(fd.get(), &info) != 0) return SystemError(errno, path);
  if (absl::Status own = CheckOwner(info, path, 022); !own.ok()) return own;
  return fd;
}

}  // namespace

absl::Status CheckOwnFile(int fd, const std::string& path) {
  struct stat info;
  if (fstat(fd, &info) != 0) return SystemError(errno, path);
  if (!S_ISREG(info.st_mode)) {
    return absl::PermissionDeniedError(absl::StrCat(path, " is not a regular file"));
  }
  return CheckOwner(info, path);
}

absl::StatusOr<UniqueFd> OpenOwnFile(const std::string& path, bool writable) {
  const StorageCall call(path);
  if (!call.status().ok()) return call.status();
  const auto [folder_path, name] = SplitPath(path);
  BULKHEAD_ASSIGN_OR_RETURN(const UniqueFd folder, OpenOwnFolder(folder_path));
  UniqueFd fd(openat(folder.get(), name.c_str(),
                     (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd && errno == ELOOP) {
    return absl::PermissionDeniedError(absl::StrCat(path, " is a symbolic link"));
  }
  if (!fd) return SystemError(errno, path);
  if (absl::Status own = CheckOwnFile(fd.get(), path); !own.ok()) return own;
  return fd;
}

absl::Status TakeOwnFolder(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd && (errno == ENOTDIR || errno == ELOOP)) {
    return absl::PermissionDeniedError(absl::StrCat(path, " is not a folder"));
  }
  if (!fd) return SystemError(errno, path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return SystemError(errno, path);
  absl::Status own = CheckOwner(info, path);
  if (own.ok() || info.st_uid != geteuid() || !NamesIn(path).empty()) return own;
  if (fchmod(fd.get(), 0700) != 0) return SystemError(errno, path);
  // Files that others put in before it was closed would be taken for ours.
  return NamesIn(path).empty() ? absl::OkStatus() : own;
}

absl::StatusOr<UniqueFd> CreateUnnamedFile(const std::string& directory) {
  const StorageCall call(directory);
  if (!call.status().ok()) return call.status();
  BULKHEAD_ASSIGN_OR_RETURN(const UniqueFd folder, OpenOwnFolder(directory));
  UniqueFd fd(openat(folder.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd) return SystemError(errno, absl::StrCat("creating a file in ", directory));
  return fd;
}

absl::Status PublishFile(int fd, const std::string& path) {
  const StorageCall call(path);
  if (!call.status().ok()) return call.status();
  if (fsync(fd) != 0) return SystemError(errno, absl::StrCat("writing ", path));
  // Unlike rename, linkat does not replace a file, so link under a temporary name first. The name
  // is random, because process ids and counters repeat in containers that share a folder.
  const std::string temporary = absl::StrCat(path, ".", RandomName(8), ".tmp");
  const std::string source = absl::StrCat("/proc/self/fd/", fd);
  if (linkat(AT_FDCWD, source.c_str(), AT_FDCWD, temporary.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return SystemError(errno, absl::StrCat("naming ", path));
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    return SystemError(error, absl::StrCat("naming ", path));
  }
  return absl::OkStatus();
}

absl::Status NameFile(int fd, const std::string& path) {
  const std::string source = absl::StrCat("/proc/self/fd/", fd);
  if (linkat(AT_FDCWD, source.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return SystemError(errno, absl::StrCat("naming ", path));
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> OpenFile(const std::string& path, bool writable) {
  const StorageCall call(path);
  if (!call.status().ok()) return call.status();
  UniqueFd fd(open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return SystemError(errno, path);
  return fd;
}

absl::Status AllocateFile(int fd, uint64_t bytes) {
  const int error = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  if (error == 0) return absl::OkStatus();
  const std::string what = absl::StrCat("allocating ", bytes, " bytes");
  if (error != ENOSPC && error != EDQUOT && error != EFBIG) return SystemError(error, what);
  return absl::ResourceExhaustedError(std::string(SystemError(error, what).message()));
}

absl::Status WriteExactly(int fd, uint64_t offset, absl::string_view bytes,
                          absl::string_view what) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return SystemError(put == 0 ? ENOSPC : errno, std::string(what));
    bytes.remove_prefix(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  return absl::OkStatus();
}

bool TryLockFile(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0; }

bool ShareFile(int fd) { return flock(fd, LOCK_SH | LOCK_NB) == 0; }

void PunchHole(int fd, uint64_t offset, uint64_t bytes) {
  (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(bytes));
}

bool IsFileAt(int fd, const std::string& path) {
  struct stat open_file {};
  struct stat named {};
  return fstat(fd, &open_file) == 0 && lstat(path.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

void CutFile(int fd, uint64_t bytes) {
  const absl::StatusOr<uint64_t> size = FileSize(fd);
  if (size.ok() && *size > bytes) (void)!ftruncate(fd, static_cast<off_t>(bytes));
}

void TrimFile(int fd, uint64_t most_bytes, uint64_t kept_bytes) {
  const absl::StatusOr<uint64_t> size = FileSize(fd);
  if (!size.ok() || *size <= most_bytes || kept_bytes > *size) return;
  std::string end(kept_bytes, '\0');
  const ssize_t count = pread(fd, end.data(), end.size(), static_cast<off_t>(*size - kept_bytes));
  if (count < 0 || pwrite(fd, end.data(), static_cast<size_t>(count), 0) != count) return;
  (void)!ftruncate(fd, count);
}

bool HasLastingInodes(const std::string& path) {
  struct statfs info;
  return statfs(path.c_str(), &info) == 0 && info.f_type != FUSE_SUPER_MAGIC;
}

bool IsInMemory(const std::string& folder) {
  struct statfs info;
  return statfs(folder.c_str(), &info) == 0 &&
         (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

uint64_t FreeDiskBytes(std::string path) {
  struct statfs info;
  while (statfs(path.c_str(), &info) != 0) {
    const size_t slash = path.rfind('/');
    if (errno != ENOENT || slash == std::string::npos) return 0;
    path.resize(slash);
    if (path.empty()) path = "/";
  }
  return static_cast<uint64_t>(info.f_bavail) * static_cast<uint64_t>(info.f_bsize);
}

absl::Status ReplaceFile(const std::string& path, absl::string_view bytes) {
  const StorageCall call(path);
  if (!call.status().ok()) return call.status();
  BULKHEAD_ASSIGN_OR_RETURN(const UniqueFd file, CreateUnnamedFile(SplitPath(path).first));
  BULKHEAD_RETURN_IF_ERROR(WriteExactly(file.get(), 0, bytes, absl::StrCat("writing ", path)));
  return PublishFile(file.get(), path);
}

void RemoveFile(const std::string& path) {
  if (!path.empty()) unlink(path.c_str());
}

absl::StatusOr<std::string> ReadPrefix(int fd, size_t bytes) {
  constexpr size_t kFirstStep = size_t{64} << 10;
  std::string prefix;
  size_t got = 0;
  while (got < bytes) {
    if (got == prefix.size()) prefix.resize(std::min(bytes, std::max(kFirstStep, 2 * got)));
    const ssize_t count =
        pread(fd, prefix.data() + got, prefix.size() - got, static_cast<off_t>(got));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(errno, "reading a file");
    if (count == 0) break;
    got += static_cast<size_t>(count);
  }
  prefix.resize(got);
  return prefix;
}

bool ReadExactly(int fd, uint64_t offset, char* to, size_t size) {
  while (size > 0) {
    const ssize_t got = pread(fd, to, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
  return true;
}

absl::StatusOr<std::string> Sha256OfFile(const std::string& path) {
  const StorageCall call(path);
  if (!call.status().ok()) return call.status();
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!file || fstat(file.get(), &info) != 0) return SystemError(errno, path);
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a regular file"));
  }
  Sha256 sha;
  std::string block(size_t{64} << 10, 0);
  while (true) {
    const ssize_t count = read(file.get(), block.data(), block.size());
    if (count < 0) return SystemError(errno, path);
    if (count == 0) return sha.FinishHex();
    sha.Update(absl::string_view(block).substr(0, static_cast<size_t>(count)));
  }
}

absl::Status MakeNewDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) return absl::OkStatus();
  return SystemError(errno, absl::StrCat("making folder ", path));
}

namespace {

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// Calls visit(name) for every entry of a folder.
template <typename Visit>
void ForEachIn(int folder, const Visit& visit) {
  DIR* const listing = fdopendir(openat(folder, ".", kFolderFlags));
  if (listing == nullptr) return;
  while (const dirent* entry = readdir(listing)) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") visit(entry->d_name);
  }
  closedir(listing);
}

bool IsFolder(int folder, const char* name) {
  struct stat info;
  return fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
}

// Opens a folder even if its owner has no permission to.
UniqueFd OpenToEmpty(int parent, const char* name) {
  UniqueFd fd(openat(parent, name, kFolderFlags));
  if (!fd && errno == EACCES && fchmodat(parent, name, 0700, 0) == 0) {
    fd = UniqueFd(openat(parent, name, kFolderFlags));
  }
  return fd;
}

}  // namespace

void RemoveTree(const std::string& path) {
  const UniqueFd top = OpenToEmpty(AT_FDCWD, path.c_str());
  if (!top) return;
  uint64_t moved = 0;
  bool goes_on = true;
  // Not recursive, because trees may be deep: subfolders are moved to the top and removed there.
  while (goes_on) {
    goes_on = false;
    ForEachIn(top.get(), [&](const char* name) {
      if (unlinkat(top.get(), name, 0) == 0 || unlinkat(top.get(), name, AT_REMOVEDIR) == 0) return;
      const UniqueFd folder = OpenToEmpty(top.get(), name);
      if (!folder) return;
      ForEachIn(folder.get(), [&](const char* inner) {
        if (!IsFolder(folder.get(), inner)) {
          unlinkat(folder.get(), inner, 0);
        } else if (unlinkat(folder.get(), inner, AT_REMOVEDIR) != 0) {
          const std::string place = absl::StrCat("moved-", getpid(), "-", moved);
          if (renameat(folder.get(), inner, top.get(), place.c_str()) != 0) return;
          ++moved;
          goes_on = true;
        }
      });
      if (unlinkat(top.get(), name, AT_REMOVEDIR) == 0) goes_on = true;
    });
  }
  rmdir(path.c_str());
}

TreeSize SizeOfTree(const std::string& path, uint64_t most_files) {
  TreeSize size;
  std::vector<std::string> folders = {path};
  while (!folders.empty() && size.files < most_files) {
    const std::string folder = std::move(folders.back());
    folders.pop_back();
    const UniqueFd fd(open(folder.c_str(), kFolderFlags));
    if (!fd) continue;
    ForEachIn(fd.get(), [&](const char* name) {
      struct stat info;
      if (size.files >= most_files || fstatat(fd.get(), name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return;
      }
      ++size.files;
      size.bytes += static_cast<uint64_t>(info.st_blocks) * 512;
      if (S_ISDIR(info.st_mode)) folders.push_back(absl::StrCat(folder, "/", name));
    });
  }
  return size;
}

uint64_t NamelessBytes(pid_t pid, const std::string& folder) {
  struct stat place;
  const UniqueFd files(open(absl::StrCat("/proc/", pid, "/fd").c_str(), kFolderFlags));
  if (!files || stat(folder.c_str(), &place) != 0) return 0;
  uint64_t bytes = 0;
  ForEachIn(files.get(), [&](const char* name) {
    struct stat info;
    if (fstatat(files.get(), name, &info, 0) != 0 || !S_ISREG(info.st_mode)) return;
    if (info.st_nlink != 0 || info.st_dev != place.st_dev) return;
    bytes += static_cast<uint64_t>(info.st_blocks) * 512;
  });
  return bytes;
}

absl::StatusOr<std::string> ReadPrefix(const std::string& path, size_t bytes) {
  const StorageCall call(path);
  if (!call.status().ok()) return call.status();
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return SystemError(errno, path);
  return ReadPrefix(fd.get(), bytes);
}

void NoteUse(int fd) {
  struct stat info;
  timespec now;
  const bool known = fstat(fd, &info) == 0 && clock_gettime(CLOCK_REALTIME, &now) == 0;
  if (known && now.tv_sec - info.st_mtim.tv_sec > 3600) (void)futimens(fd, nullptr);
}

absl::StatusOr<uint64_t> FileSize(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0) return SystemError(errno, "fstat");
  return static_cast<uint64_t>(info.st_size);
}

absl::StatusOr<std::string> ProgramPath() { return RealPath("/proc/self/exe"); }

}  // namespace bulkhead

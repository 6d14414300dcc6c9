#ifndef BULKHEAD_SERVER_OS_FILES_FILESYSTEM_H_
#define BULKHEAD_SERVER_OS_FILES_FILESYSTEM_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// Functions that take a path wait for its storage; on a thread that is watched (storage_watch.h)
// they may fail with STORAGE_STALLED.

// What stat tells of a file.
struct FileInfo {
  uint64_t size_bytes = 0;
  int64_t mtime_ns = 0;
  uint64_t inode = 0;
  bool is_directory = false;
  bool is_regular = false;
};

// Statuses follow errno: NOT_FOUND, PERMISSION_DENIED, …
absl::StatusOr<FileInfo> StatFile(const std::string& path);

// Absolute path without `.`, `..` and symbolic links; the file must exist.
absl::StatusOr<std::string> RealPath(const std::string& path);

// Paths that match a shell pattern (`*`, `?`, `[…]`), sorted by bytes; a path that exists as
// written matches itself. Empty when nothing matches.
absl::StatusOr<std::vector<std::string>> ExpandGlob(const std::string& pattern);

// Names of what lies in a folder, `.` and `..` aside, in no order; empty when it cannot be listed.
std::vector<std::string> NamesIn(const std::string& folder);

// Whether `path` is `root` or lies beneath it; both absolute and free of `..` and symbolic links.
bool IsBeneath(absl::string_view path, absl::string_view root);

// Makes a directory, parents included, private to the user (0700) where it is new.
absl::Status MakeDirectories(const std::string& path);

// PERMISSION_DENIED unless the folder belongs to this user and nobody else may write to it.
absl::Status CheckPrivateFolder(const std::string& path);

// Whether an open file can be trusted as one that this service made: PERMISSION_DENIED, with the
// path and what is wrong, unless it is regular, belongs to this user and only this user may read or
// write it.
absl::Status CheckOwnFile(int fd, const std::string& path);

// Opens a file that CheckOwnFile accepts, for reading, or for reading and writing. Symbolic links
// are not followed, and a pipe does not block. NOT_FOUND when there is none. PERMISSION_DENIED,
// too, when by now its folder is another user's, or others may write to it: they may have put
// anything there.
absl::StatusOr<UniqueFd> OpenOwnFile(const std::string& path, bool writable);

// Whether what lies in a folder can only have been put there by this user: PERMISSION_DENIED, with
// the path and what is wrong, unless it is a folder that belongs to this user and that nobody else
// may enter (0700). An empty folder of this user's that others may enter is closed to them.
absl::Status TakeOwnFolder(const std::string& path);

// A new regular file without a name in `directory`, open for reading and writing: it vanishes
// unless it is published. PERMISSION_DENIED when the folder is another user's, or others may write
// to it.
absl::StatusOr<UniqueFd> CreateUnnamedFile(const std::string& directory);

// Gives an unnamed file its name, durably (fsync) and atomically: whoever opens `path` finds the
// old file or all of the new.
absl::Status PublishFile(int fd, const std::string& path);

// Gives an unnamed file a name that nobody has, at once and not durably: for what may be lost with
// the machine. ALREADY_EXISTS when somebody has it.
absl::Status NameFile(int fd, const std::string& path);

// Opens the file at `path`, which is no symbolic link, for reading, or for reading and writing.
absl::StatusOr<UniqueFd> OpenFile(const std::string& path, bool writable);

// Makes an open file `bytes` long and takes the disk's blocks for all of it. Blocks for the disk.
// RESOURCE_EXHAUSTED when that is full.
absl::Status AllocateFile(int fd, uint64_t bytes);

// Writes `bytes` at the beginning of an open file, whatever its position.
absl::Status WritePrefix(int fd, absl::string_view bytes);

// Takes the lock of an open file, which lasts until the last descriptor of that opening is closed,
// in whichever process. False when another opening has it.
bool TryLockFile(int fd);

// Whether an open file is the one that `path` names now; links are not followed.
bool IsFileAt(int fd, const std::string& path);

// Cuts an open file that is longer to its first `bytes`; best effort. Blocks for the disk.
void CutFile(int fd, uint64_t bytes);

// Cuts an open file of more than `most_bytes` to its last `kept_bytes`. What others append at that
// moment may be lost.
void TrimFile(int fd, uint64_t most_bytes, uint64_t kept_bytes);

// Whether a file keeps its inode number: one of a FUSE file system may have another whenever it is
// looked up anew.
bool HasLastingInodes(const std::string& path);

// Whether what lies in a folder lies in memory (tmpfs).
bool IsInMemory(const std::string& folder);

// Makes `bytes` the content of the file at `path`, as PublishFile does. Blocks for the disk.
absl::Status ReplaceFile(const std::string& path, absl::string_view bytes);

// Removes a file if it is there; best effort.
void RemoveFile(const std::string& path);

// Makes a folder that nobody has yet, private to the user (0700). ALREADY_EXISTS.
absl::Status MakeNewDirectory(const std::string& path);

// Removes a folder with all that is in it, however deep, whoever made it so; follows no links. Best
// effort; a file is left alone.
void RemoveTree(const std::string& path);

// What lies in a folder and below, links not followed.
struct TreeSize {
  uint64_t bytes = 0;  // that the disk holds
  uint64_t files = 0;  // folders among them
};
// Stops counting at `most_files`.
TreeSize SizeOfTree(const std::string& path, uint64_t most_files);

// Bytes of files of the file system of `folder` that process `pid` has open and that have no name
// any more; 0 when nobody may look.
uint64_t NamelessBytes(pid_t pid, const std::string& folder);

// Up to `bytes` from the beginning of a file.
absl::StatusOr<std::string> ReadPrefix(const std::string& path, size_t bytes);
absl::StatusOr<std::string> ReadPrefix(int fd, size_t bytes);

// Notes in an open file's time of modification that it is in use, to within an hour. Best effort.
void NoteUse(int fd);

// SHA-256 of a regular file's content, in hex.
absl::StatusOr<std::string> Sha256OfFile(const std::string& path);

// Size of an open file.
absl::StatusOr<uint64_t> FileSize(int fd);

// Absolute path of the running program.
absl::StatusOr<std::string> ProgramPath();

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_FILES_FILESYSTEM_H_

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// Functions that take a path block on its storage. On a watched thread (storage_watch.h) they may
// fail with STORAGE_STALLED.

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

// Where the symbolic link at `path` leads, as written in it; INVALID_ARGUMENT when it is no link.
absl::StatusOr<std::string> ReadLink(const std::string& path);

// Names of a folder's entries without `.` and `..`, unsorted; empty if it cannot be listed.
std::vector<std::string> NamesIn(const std::string& folder);

// Whether `path` is `root` or lies under it; both absolute, without `..` and symbolic links.
bool IsBeneath(absl::string_view path, absl::string_view root);

// Makes a directory and its parents; new ones are private to the user (0700).
absl::Status MakeDirectories(const std::string& path);

// PERMISSION_DENIED unless the folder belongs to this user and no other user may write to it.
absl::Status CheckPrivateFolder(const std::string& path);

// PERMISSION_DENIED, with the path and the reason, unless the open file is regular, belongs to this
// user, and only this user may read or write it. Then this service made it.
absl::Status CheckOwnFile(int fd, const std::string& path);

// Opens a file that CheckOwnFile accepts, for reading or for both. Does not follow symbolic links;
// a pipe does not block. NOT_FOUND if there is none. PERMISSION_DENIED also if its folder is now
// another user's or writable by others, who may have put anything there.
absl::StatusOr<UniqueFd> OpenOwnFile(const std::string& path, bool writable);

// PERMISSION_DENIED, with the path and the reason, unless it is a folder of this user that nobody
// else may enter (0700), so that nobody else can have put files there. Closes an empty folder of
// this user to others.
absl::Status TakeOwnFolder(const std::string& path);

// A new unnamed regular file in `directory`, open for reading and writing. It vanishes unless it is
// published. PERMISSION_DENIED if the folder is another user's or writable by others.
absl::StatusOr<UniqueFd> CreateUnnamedFile(const std::string& directory);

// Names an unnamed file durably (fsync) and atomically: opening `path` gives the old file or all of
// the new one.
absl::Status PublishFile(int fd, const std::string& path);

// Gives an unnamed file an unused name, without fsync: for files that may be lost in a crash of the
// machine. ALREADY_EXISTS if the name is in use.
absl::Status NameFile(int fd, const std::string& path);

// Opens the file at `path` for reading or for both. Does not follow a symbolic link.
absl::StatusOr<UniqueFd> OpenFile(const std::string& path, bool writable);

// Sets an open file's size to `bytes` and allocates all its blocks. Blocks for the disk.
// RESOURCE_EXHAUSTED if the disk is full.
absl::Status AllocateFile(int fd, uint64_t bytes);

// Writes all of `bytes` into an open file or shared memory, from `offset` on. `what` begins an
// error's text. RESOURCE_EXHAUSTED if the disk is full.
absl::Status WriteExactly(int fd, uint64_t offset, absl::string_view bytes,
                          absl::string_view what = "writing a file of the cache folder");

// Locks an open file until the last descriptor of this opening is closed, in any process. False if
// another opening holds the lock.
bool TryLockFile(int fd);

// The same, together with others that share it: TryLockFile fails then. False if another holds it
// alone.
bool ShareFile(int fd);

// Gives the disk of a file's bytes [offset, offset + bytes) back; they read as zeros. Best effort.
void PunchHole(int fd, uint64_t offset, uint64_t bytes);

// Whether an open file is the one that `path` names now; does not follow links.
bool IsFileAt(int fd, const std::string& path);

// Cuts a longer open file to its first `bytes`; best effort. Blocks for the disk.
void CutFile(int fd, uint64_t bytes);

// Cuts an open file of more than `most_bytes` to its last `kept_bytes`. Concurrent appends may be
// lost.
void TrimFile(int fd, uint64_t most_bytes, uint64_t kept_bytes);

// Whether files keep their inode numbers. On a FUSE file system they may change at every lookup.
bool HasLastingInodes(const std::string& path);

// Whether a folder is in memory (tmpfs).
bool IsInMemory(const std::string& folder);

// Bytes that are free for this user on the disk of `path`, or of the nearest folder above that
// exists; 0 if unknown.
uint64_t FreeDiskBytes(std::string path);

// Replaces the content of the file at `path`, like PublishFile. Blocks for the disk.
absl::Status ReplaceFile(const std::string& path, absl::string_view bytes);

// Removes a file if it is there; best effort.
void RemoveFile(const std::string& path);

// Makes a new folder, private to the user (0700). ALREADY_EXISTS.
absl::Status MakeNewDirectory(const std::string& path);

// Removes a folder with its content, at any depth and with any permissions; does not follow links.
// Best effort; leaves a file alone.
void RemoveTree(const std::string& path);

// Size of a folder's content, without following links.
struct TreeSize {
  uint64_t bytes = 0;  // on disk
  uint64_t files = 0;  // including folders
};
// Stops counting at `most_files`.
TreeSize SizeOfTree(const std::string& path, uint64_t most_files);

// Bytes of unnamed files on the file system of `folder` that process `pid` has open; 0 without the
// right to look.
uint64_t NamelessBytes(pid_t pid, const std::string& folder);

// Up to `bytes` from the start of a file. Takes memory for what is there, not for `bytes`.
absl::StatusOr<std::string> ReadPrefix(const std::string& path, size_t bytes);
absl::StatusOr<std::string> ReadPrefix(int fd, size_t bytes);

// Reads bytes [offset, offset + size) of a file. False if it ends before, or cannot be read.
bool ReadExactly(int fd, uint64_t offset, char* to, size_t size);

// Marks an open file as in use by its modification time, to within an hour. Best effort.
void NoteUse(int fd);

// SHA-256 of a regular file's content, in hex.
absl::StatusOr<std::string> Sha256OfFile(const std::string& path);

// Size of an open file.
absl::StatusOr<uint64_t> FileSize(int fd);

// Absolute path of the running program.
absl::StatusOr<std::string> ProgramPath();

}  // namespace bulkhead

#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// Identifies a file and its state. If two differ in any field, they are of different files, or the
// file was written to. Zero means unknown, and is not compared.
struct FileIdentity {
  uint64_t size_bytes = 0;
  int64_t mtime_ns = 0;
  uint64_t inode = 0;
  // The time of the last change of any kind, which nobody can set. Not compared: it changes with a
  // file's name and rights, too.
  int64_t ctime_ns = 0;
};

// An open regular file of a data set, for positioned reads. Its bytes are untrusted, and the file
// may change or vanish at any time. Movable; reads are thread-safe.
class DataFile {
 public:
  // What identifies an object of an object store, and where its blocks lie.
  struct Object {
    std::string key;
    std::string path;  // of ObjectBlocks
    std::string spare_path;

    explicit operator bool() const { return !key.empty(); }
  };

  // Opens `path`; `name`: its name in messages, which outlives the file. Blocks on the file system.
  // Errors, none of them a sample error: FILE_NOT_FOUND (NOT_FOUND), FILE_UNREADABLE
  // (PERMISSION_DENIED for a lack of rights, INVALID_ARGUMENT for something that is not a regular
  // file, else UNAVAILABLE).
  static absl::StatusOr<DataFile> Open(const std::string& path, absl::string_view name);
  // Takes over `fd`, which was opened with kOpenFlags. Errors as Open's.
  static absl::StatusOr<DataFile> Take(UniqueFd fd, absl::string_view name);
  // Opens what this host has of an object, which nobody can change. FILE_UNREADABLE if its files
  // are damaged.
  static absl::StatusOr<DataFile> OpenObject(const Object& object, absl::string_view name);
  // Opening a FIFO among the data must not hang; regular files ignore O_NONBLOCK.
  static constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

  DataFile(DataFile&& other) noexcept;
  DataFile& operator=(DataFile&& other) noexcept;
  ~DataFile();

  // Reads `size` bytes at `offset`, or fewer at the end of the file. FILE_UNREADABLE with
  // name@offset if the system reports an error. Of an object also NOT_FETCHED (UNAVAILABLE), with
  // metadata `key`, `begin` and `end`: bytes that are not on this host.
  absl::StatusOr<size_t> ReadAt(uint64_t offset, char* to, size_t size) const;

  // Lets the kernel fetch these bytes into its cache, without waiting for them. Best effort.
  void Prefetch(uint64_t offset, uint64_t size) const;

  // Checks that the opened file is the indexed one: else FILE_CHANGED (FAILED_PRECONDITION), with
  // its name. Size and time both zero: nothing is known about the indexed file.
  absl::Status CheckUnchanged(const FileIdentity& indexed) const;
  // Checks that the file is still in the state in which it was opened. Call it after a read, whose
  // bytes are then those of that state. One fstat. Errors: FILE_CHANGED, FILE_UNREADABLE.
  absl::Status CheckStill() const;

  // Identifies the file system that the file lies on, for as long as that exists; 0: it has no such
  // number. Absent where times do not tell of every change: images of file systems that somebody
  // made with the times that he wanted, and tmpfs, where writes into a mapping set them only once.
  std::optional<uint64_t> FileSystem() const;

  absl::string_view name() const { return name_; }
  // As they were when the file was opened.
  const FileIdentity& identity() const { return identity_; }
  uint64_t size_bytes() const { return identity_.size_bytes; }

 private:
  class Blocks;
  DataFile(UniqueFd fd, absl::string_view name);

  UniqueFd fd_;
  std::unique_ptr<const Blocks> blocks_;  // of an object; null: a file
  absl::string_view name_;
  FileIdentity identity_;
};

// NOT_FETCHED for bytes [begin, end) of an object. `wrong`: they are on this host, but are not what
// was written; the metadata then has `wrong`, too.
absl::Status NotFetched(const std::string& key, uint64_t begin, uint64_t end, bool wrong = false);

// `code` with `reason` for the file `name`, of which `what` says what is wrong.
absl::Status FileFault(absl::StatusCode code, absl::string_view reason, absl::string_view name,
                       absl::string_view what);

// Opens `path`; no descriptor, with errno set, when that fails.
UniqueFd OpenFd(const std::string& path, int flags);

// FILE_NOT_FOUND or FILE_UNREADABLE for the errno `error` of a failed `action` ("opened", "read")
// on the file `name`.
absl::Status FileError(int error, absl::string_view name, absl::string_view action);

// The regular file at `path`. Errors: those of DataFile::Open.
absl::StatusOr<FileIdentity> IdentifyFile(const std::string& path, absl::string_view name);

// The result of `stat` for a file.
FileIdentity IdentityOf(const struct stat& info);

// `path` itself if it is absolute, else `folder`/`path`; `folder` if `path` is empty.
std::string JoinPath(absl::string_view folder, absl::string_view path);
// The same, written to `joined`, whose memory is reused.
void JoinPath(absl::string_view folder, absl::string_view path, std::string& joined);

// `path` in its shortest spelling: without "./", "x/../" and double slashes. Accesses no file.
std::string PlainPath(std::string path);

// The folder of the file `path`.
std::string FolderOf(const std::string& path);

}  // namespace bulkhead

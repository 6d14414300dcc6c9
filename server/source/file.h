#ifndef BULKHEAD_SERVER_SOURCE_FILE_H_
#define BULKHEAD_SERVER_SOURCE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_field.h"

namespace bulkhead {

// An open regular file of a data set, for positioned reads. Its bytes are untrusted, and the file
// may change or vanish at any time. Movable; reads are thread-safe.
class DataFile {
 public:
  // Opens `path`; `name` is what messages call it. Blocks on the file system. Errors, none of them
  // a sample error: FILE_NOT_FOUND (NOT_FOUND), FILE_UNREADABLE (PERMISSION_DENIED for a lack of
  // rights, INVALID_ARGUMENT for something that is not a regular file, else UNAVAILABLE).
  static absl::StatusOr<DataFile> Open(const std::string& path, absl::string_view name);

  DataFile(DataFile&& other) noexcept;
  DataFile& operator=(DataFile&& other) noexcept;
  ~DataFile();

  // Reads `size` bytes at `offset`; fewer only where the file ends. FILE_UNREADABLE with
  // name@offset when the system reports an error.
  absl::StatusOr<size_t> ReadAt(uint64_t offset, char* to, size_t size) const;

  // OK while the file has this size and modification time; else FILE_CHANGED (FAILED_PRECONDITION).
  // Both zero means unknown: nothing to compare with.
  absl::Status CheckUnchanged(uint64_t expected_size_bytes, int64_t expected_mtime_ns) const;

  const std::string& name() const { return name_; }
  // As they were when the file was opened.
  uint64_t size_bytes() const { return size_bytes_; }
  int64_t mtime_ns() const { return mtime_ns_; }

 private:
  DataFile(int fd, absl::string_view name, uint64_t size_bytes, int64_t mtime_ns);

  int fd_ = -1;
  std::string name_;
  uint64_t size_bytes_ = 0;
  int64_t mtime_ns_ = 0;
};

// FILE_NOT_FOUND or FILE_UNREADABLE for the errno `error` that came from trying to do `action`
// ("opened", "read") with the file called `name`.
absl::Status FileError(int error, absl::string_view name, absl::string_view action);

// Size of the regular file at `path`. Errors: those of DataFile::Open.
absl::StatusOr<uint64_t> RegularFileSize(const std::string& path, absl::string_view name);

// `path` itself when it is absolute, else `folder`/`path`; `folder` when `path` is empty.
std::string JoinPath(absl::string_view folder, absl::string_view path);

// `path` in its shortest spelling: without "./", "x/../" and double slashes. Looks at no file.
std::string PlainPath(std::string path);

// The folder that the file `path` lies in.
std::string FolderOf(const std::string& path);

// The folders under which data must lie. Immutable, thread-safe.
class Roots {
 public:
  Roots() = default;
  // `roots` empty: every file is allowed. Roots are resolved once, here.
  explicit Roots(const google::protobuf::RepeatedPtrField<std::string>& roots);

  // OK when `path`, with symbolic links resolved, lies under a root. PATH_NOT_ALLOWED
  // (PERMISSION_DENIED) when it does not; FILE_NOT_FOUND when there is no such file.
  absl::Status Check(const std::string& path, absl::string_view name) const;

 private:
  bool everything_ = true;
  std::vector<std::string> roots_;  // resolved, with a slash at the end
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SOURCE_FILE_H_

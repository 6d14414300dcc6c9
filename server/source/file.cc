#include "server/source/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <new>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

int64_t MtimeNs(const struct stat& info) {
  return static_cast<int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

absl::Status NotRegular(absl::string_view name) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kFileUnreadable,
                   absl::StrCat(name, ": is not a regular file"), {{"file", std::string(name)}});
}

}  // namespace

absl::Status FileError(int error, absl::string_view name, absl::string_view action) {
  if (error == ENOMEM) throw std::bad_alloc();
  std::map<std::string, std::string> metadata{{"file", std::string(name)}};
  if (error == ENOENT || error == ENOTDIR) {
    return MakeError(absl::StatusCode::kNotFound, reason::kFileNotFound,
                     absl::StrCat(name, ": there is no such file"), std::move(metadata));
  }
  const bool denied = error == EACCES || error == EPERM;
  const bool wrong = error == ELOOP || error == ENAMETOOLONG || error == EISDIR;
  const absl::StatusCode code = denied  ? absl::StatusCode::kPermissionDenied
                                : wrong ? absl::StatusCode::kInvalidArgument
                                        : absl::StatusCode::kUnavailable;
  return MakeError(code, reason::kFileUnreadable,
                   absl::StrCat(name, ": cannot be ", action, ": ", std::strerror(error),
                                denied ? "; give the service's user the right to read it" : ""),
                   std::move(metadata));
}

absl::StatusOr<uint64_t> RegularFileSize(const std::string& path, absl::string_view name) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return FileError(errno, name, "opened");
  if (!S_ISREG(info.st_mode)) return NotRegular(name);
  return static_cast<uint64_t>(info.st_size);
}

std::string JoinPath(absl::string_view folder, absl::string_view path) {
  std::string joined;
  JoinPath(folder, path, joined);
  return joined;
}

void JoinPath(absl::string_view folder, absl::string_view path, std::string& joined) {
  joined.clear();
  if (path.empty() || path[0] != '/') absl::StrAppend(&joined, folder);
  const bool has_slash = joined.empty() || joined.back() == '/' || path.empty();
  absl::StrAppend(&joined, has_slash ? "" : "/", path);
}

std::string PlainPath(std::string path) {
  const bool is_plain = !absl::StartsWith(path, "./") && !absl::StrContains(path, "/.") &&
                        !absl::StrContains(path, "//");
  return is_plain ? std::move(path) : std::filesystem::path(path).lexically_normal().string();
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::StatusOr<DataFile> DataFile::Open(const std::string& path, absl::string_view name) {
  int fd = -1;
  do {
    fd = open(path.c_str(), kOpenFlags);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return FileError(errno, name, "opened");
  return Take(fd, name);
}

absl::StatusOr<DataFile> DataFile::Take(int fd, absl::string_view name) {
  DataFile file(fd, name, 0, 0);
  struct stat info;
  if (fstat(fd, &info) != 0) return FileError(errno, name, "opened");
  if (!S_ISREG(info.st_mode)) return NotRegular(name);
  file.size_bytes_ = static_cast<uint64_t>(info.st_size);
  file.mtime_ns_ = MtimeNs(info);
  return file;
}

DataFile::DataFile(int fd, absl::string_view name, uint64_t size_bytes, int64_t mtime_ns)
    : fd_(fd), name_(name), size_bytes_(size_bytes), mtime_ns_(mtime_ns) {}

DataFile::DataFile(DataFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      name_(other.name_),
      size_bytes_(other.size_bytes_),
      mtime_ns_(other.mtime_ns_) {}

DataFile& DataFile::operator=(DataFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(name_, other.name_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(mtime_ns_, other.mtime_ns_);
  return *this;
}

DataFile::~DataFile() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<size_t> DataFile::ReadAt(uint64_t offset, char* to, size_t size) const {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = pread(fd_, to + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Annotate(FileError(errno, absl::StrCat(name_, "@", offset), "read"), "",
                      {{"offset", absl::StrCat(offset)}});
    }
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

void DataFile::Prefetch(uint64_t offset, uint64_t size) const {
  (void)posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(size),
                      POSIX_FADV_WILLNEED);
}

absl::Status DataFile::CheckUnchanged(uint64_t expected_size_bytes,
                                      int64_t expected_mtime_ns) const {
  if (expected_size_bytes == 0 && expected_mtime_ns == 0) return absl::OkStatus();
  if (size_bytes_ == expected_size_bytes && mtime_ns_ == expected_mtime_ns) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition, reason::kFileChanged,
      absl::StrCat(name_, ": changed since it was indexed (", expected_size_bytes, " bytes then, ",
                   size_bytes_, " now); open the stream again to index it anew"),
      {{"file", std::string(name_)}});
}

}  // namespace bulkhead

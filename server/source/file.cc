#include "server/source/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/file_changed.h"
#include "server/base/record_name.h"
#include "server/blocks/object_blocks.h"
#include "server/os/files/read_ahead.h"

namespace bulkhead {
namespace {

absl::Status NotRegular(absl::string_view name) {
  return FileFault(absl::StatusCode::kInvalidArgument, reason::kFileUnreadable, name,
                   "is not a regular file");
}

// A FUSE file system may give a file another inode number whenever it is looked up again.
bool HasLastingInodes(int fd) {
  struct statfs info;
  return fstatfs(fd, &info) == 0 && info.f_type != FUSE_SUPER_MAGIC;
}

absl::Status Changed(absl::string_view name, const FileIdentity& then, const FileIdentity& now) {
  const std::string how =
      then.size_bytes != now.size_bytes
          ? absl::StrCat(then.size_bytes, " bytes then, ", now.size_bytes, " now")
      : then.mtime_ns != now.mtime_ns
          ? absl::StrCat("it was written to; its size of ", now.size_bytes, " bytes is the same")
          : "another file took its place";
  return FileChanged(name, how);
}

}  // namespace

absl::Status NotFetched(const std::string& key, uint64_t begin, uint64_t end, bool wrong) {
  std::map<std::string, std::string> metadata{
      {"key", key}, {"begin", absl::StrCat(begin)}, {"end", absl::StrCat(end)}};
  if (wrong) metadata["wrong"] = "1";
  return MakeError(absl::StatusCode::kUnavailable, reason::kNotFetched,
                   absl::StrCat("bytes ", begin, " to ", end,
                                wrong ? " arrived wrong on this host" : " are not on this host"),
                   std::move(metadata));
}

absl::Status FileFault(absl::StatusCode code, absl::string_view reason, absl::string_view name,
                       absl::string_view what) {
  return MakeError(code, reason, absl::StrCat(Printable(name), ": ", what),
                   {{"file", std::string(name)}});
}

UniqueFd OpenFd(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = open(path.c_str(), flags);
  } while (fd < 0 && errno == EINTR);
  return UniqueFd(fd);
}

absl::Status FileError(int error, absl::string_view name, absl::string_view action) {
  if (error == ENOMEM) throw std::bad_alloc();
  if (error == ENOENT || error == ENOTDIR) {
    return FileFault(absl::StatusCode::kNotFound, reason::kFileNotFound, name,
                     "there is no such file");
  }
  const bool denied = error == EACCES || error == EPERM;
  const bool wrong = error == ELOOP || error == ENAMETOOLONG || error == EISDIR;
  const absl::StatusCode code = denied  ? absl::StatusCode::kPermissionDenied
                                : wrong ? absl::StatusCode::kInvalidArgument
                                        : absl::StatusCode::kUnavailable;
  return FileFault(code, reason::kFileUnreadable, name,
                   absl::StrCat("cannot be ", action, ": ", std::strerror(error),
                                denied ? "; give the service's user the right to read it" : ""));
}

FileIdentity IdentityOf(const struct stat& info) {
  return {static_cast<uint64_t>(info.st_size),
          static_cast<int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec,
          static_cast<uint64_t>(info.st_ino),
          static_cast<int64_t>(info.st_ctim.tv_sec) * 1'000'000'000 + info.st_ctim.tv_nsec};
}

absl::StatusOr<FileIdentity> IdentifyFile(const std::string& path, absl::string_view name) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return FileError(errno, name, "opened");
  if (!S_ISREG(info.st_mode)) return NotRegular(name);
  return IdentityOf(info);
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
  UniqueFd fd = OpenFd(path, kOpenFlags);
  if (!fd) return FileError(errno, name, "opened");
  return Take(std::move(fd), name);
}

absl::StatusOr<DataFile> DataFile::Take(UniqueFd fd, absl::string_view name) {
  DataFile file(std::move(fd), name);
  struct stat info;
  if (fstat(file.fd_.get(), &info) != 0) return FileError(errno, name, "opened");
  if (!S_ISREG(info.st_mode)) return NotRegular(name);
  file.identity_ = IdentityOf(info);
  return file;
}

// The blocks of an object: those that all services of this host keep, and those of this one.
class DataFile::Blocks {
 public:
  static absl::StatusOr<std::unique_ptr<const Blocks>> Open(const Object& object) {
    auto blocks = std::make_unique<Blocks>();
    blocks->key_ = object.key;
    for (const std::string* path : {&object.path, &object.spare_path}) {
      absl::StatusOr<ObjectBlocks> opened = ObjectBlocks::Open(*path);
      if (opened.ok()) {
        blocks->object_ = opened->object();
        blocks->parts_.push_back(*std::move(opened));
      } else if (!absl::IsNotFound(opened.status())) {
        return opened.status();
      }
    }
    if (blocks->parts_.empty()) return std::unique_ptr<const Blocks>();
    return blocks;
  }

  const ObjectBlocks::Object& object() const { return object_; }

  absl::StatusOr<size_t> ReadAt(uint64_t offset, char* to, size_t size) const {
    const uint64_t end = std::min(object_.size_bytes, offset + size);
    for (uint64_t at = offset; at < end;) {
      const uint64_t block = at / ObjectBlocks::kBlockBytes;
      const uint64_t begin = block * ObjectBlocks::kBlockBytes;
      const uint64_t next = std::min(end, begin + ObjectBlocks::kBlockBytes);
      const bool read = std::any_of(parts_.begin(), parts_.end(), [&](const ObjectBlocks& part) {
        return part.Read(block, at - begin, to, next - at);
      });
      if (!read) return NotFetched(key_, at, end);
      to += next - at;
      at = next;
    }
    return end > offset ? end - offset : 0;
  }

 private:
  std::string key_;
  ObjectBlocks::Object object_;
  std::vector<ObjectBlocks> parts_;
};

DataFile::DataFile(UniqueFd fd, absl::string_view name) : fd_(std::move(fd)), name_(name) {}
DataFile::DataFile(DataFile&& other) noexcept = default;
DataFile& DataFile::operator=(DataFile&& other) noexcept = default;
DataFile::~DataFile() = default;

absl::StatusOr<DataFile> DataFile::OpenObject(const Object& object, absl::string_view name) {
  auto blocks = Blocks::Open(object);
  if (!blocks.ok()) {
    return FileFault(
        absl::StatusCode::kUnavailable, reason::kFileUnreadable, name,
        absl::StrCat("its blocks on this host cannot be read: ", blocks.status().message()));
  }
  if (*blocks == nullptr) return NotFetched(object.key, 0, 1);
  DataFile file(UniqueFd(), name);
  file.identity_.size_bytes = (*blocks)->object().size_bytes;
  file.identity_.mtime_ns = (*blocks)->object().mtime_ns;
  file.identity_.inode = ObjectBlocks::NumberOf(object.key);
  file.blocks_ = *std::move(blocks);
  return file;
}

absl::StatusOr<size_t> DataFile::ReadAt(uint64_t offset, char* to, size_t size) const {
  if (blocks_ != nullptr) return blocks_->ReadAt(offset, to, size);
  size_t done = 0;
  while (done < size) {
    const ssize_t got = pread(fd_.get(), to + done, size - done, static_cast<off_t>(offset + done));
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
  if (blocks_ == nullptr) ReadAhead(fd_.get(), offset, size);
}

std::optional<uint64_t> DataFile::FileSystem() const {
  // Not those that show the times of other file systems, as overlayfs and FUSE do, or of an image
  // that was made with any times; nor tmpfs.
  constexpr int64_t kXfs = 0x58465342;
  constexpr int64_t kZfs = 0x2FC12FC1;
  constexpr int64_t kBcachefs = 0xCA451A4E;
  constexpr int64_t kFit[] = {EXT4_SUPER_MAGIC, kXfs, BTRFS_SUPER_MAGIC,
                              F2FS_SUPER_MAGIC, kZfs, kBcachefs};
  struct statfs info;
  if (blocks_ != nullptr || fstatfs(fd_.get(), &info) != 0) return std::nullopt;
  if (std::find(std::begin(kFit), std::end(kFit), int64_t{info.f_type}) == std::end(kFit)) {
    return std::nullopt;
  }
  uint64_t number = 0;
  static_assert(sizeof(info.f_fsid) == sizeof(number));
  std::memcpy(&number, &info.f_fsid, sizeof(number));
  return number;
}

absl::Status DataFile::CheckUnchanged(const FileIdentity& indexed) const {
  if (indexed.size_bytes == 0 && indexed.mtime_ns == 0) return absl::OkStatus();
  const bool same = identity_.size_bytes == indexed.size_bytes &&
                    identity_.mtime_ns == indexed.mtime_ns &&
                    (indexed.inode == 0 || identity_.inode == indexed.inode ||
                     (blocks_ == nullptr && !HasLastingInodes(fd_.get())));
  return same ? absl::OkStatus() : Changed(name_, indexed, identity_);
}

absl::Status DataFile::CheckStill() const {
  if (blocks_ != nullptr) return absl::OkStatus();
  struct stat info;
  if (fstat(fd_.get(), &info) != 0) return FileError(errno, name_, "read");
  const FileIdentity now = IdentityOf(info);
  const bool same = now.size_bytes == identity_.size_bytes && now.mtime_ns == identity_.mtime_ns;
  return same ? absl::OkStatus() : Changed(name_, identity_, now);
}

}  // namespace bulkhead

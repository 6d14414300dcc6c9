#include "server/source/index_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/source/file.h"

namespace bulkhead {
namespace {

constexpr size_t kFlushBytes = 64 << 10;

absl::Status WriteAt(int fd, uint64_t offset, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return FileError(put == 0 ? EIO : errno, "record index", "written");
    bytes.remove_prefix(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status IndexDamaged(absl::string_view name, absl::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss, reason::kIndexDamaged,
                   absl::StrCat("the record index of ", name, " ", what,
                                "; remove it from the cache folder to have it built again"),
                   {{"file", std::string(name)}});
}

IndexFileWriter::IndexFileWriter(int fd) : fd_(fd) { buffer_.reserve(kFlushBytes); }

absl::Status IndexFileWriter::Append(absl::string_view bytes) {
  buffer_.append(bytes.data(), bytes.size());
  payload_bytes_ += bytes.size();
  return buffer_.size() >= kFlushBytes ? Flush() : absl::OkStatus();
}

absl::Status IndexFileWriter::Flush() {
  crc_ = Crc32c(buffer_, crc_);
  BULKHEAD_RETURN_IF_ERROR(WriteAt(fd_, IndexHeader::kBytes + flushed_bytes_, buffer_));
  flushed_bytes_ += buffer_.size();
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status IndexFileWriter::Finish(IndexHeader header) {
  BULKHEAD_RETURN_IF_ERROR(Flush());
  header.payload_bytes = payload_bytes_;
  header.payload_crc32c = crc_;
  const auto bytes = header.Serialize();
  return WriteAt(fd_, 0,
                 absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

absl::StatusOr<MappedIndex> MappedIndex::Open(const std::string& path, absl::string_view name,
                                              uint32_t kind) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return Annotate(FileError(errno, path, "opened"), absl::StrCat("record index of ", name));
  }
  struct stat info;
  if (fstat(fd, &info) != 0 || info.st_size < static_cast<off_t>(IndexHeader::kBytes)) {
    close(fd);
    return IndexDamaged(name, "is shorter than its header");
  }
  const size_t size = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  const int error = errno;
  close(fd);
  if (data == MAP_FAILED) {
    return Annotate(FileError(error, path, "mapped"), absl::StrCat("record index of ", name));
  }
  MappedIndex index(data, size);
  const auto header = IndexHeader::Parse(absl::string_view(static_cast<const char*>(data), size));
  if (!header.ok()) return Annotate(header.status(), absl::StrCat("record index of ", name));
  index.header_ = *header;
  if (index.header_.kind != kind) return IndexDamaged(name, "belongs to another kind of source");
  if (index.header_.payload_bytes != size - IndexHeader::kBytes) {
    return IndexDamaged(name, "has the wrong size");
  }
  if (Crc32c(index.payload()) != index.header_.payload_crc32c) {
    return IndexDamaged(name, "does not match its checksum");
  }
  return index;
}

MappedIndex::MappedIndex(MappedIndex&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(other.size_), header_(other.header_) {}

MappedIndex& MappedIndex::operator=(MappedIndex&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(header_, other.header_);
  return *this;
}

MappedIndex::~MappedIndex() {
  if (data_ != nullptr) munmap(data_, size_);
}

absl::string_view MappedIndex::payload() const {
  return absl::string_view(static_cast<const char*>(data_) + IndexHeader::kBytes,
                           size_ - IndexHeader::kBytes);
}

}  // namespace bulkhead

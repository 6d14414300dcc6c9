#include "server/source/index/index_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/base/read_fault.h"
#include "server/base/record_name.h"
#include "server/source/file.h"

namespace bulkhead {
namespace {

constexpr size_t kBlockBytes = 64 << 10;
constexpr size_t kSizeBytes = sizeof(uint64_t);  // the last field of an index
constexpr size_t kSmallestPage = 4096;
constexpr char kHandedPrefix[] = "/proc/self/fd/";

uint64_t BlockCount(uint64_t payload_bytes) {
  return payload_bytes / kBlockBytes + (payload_bytes % kBlockBytes != 0);
}

absl::Status WriteAt(int fd, uint64_t offset, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0)
      return FileError(put == 0 ? EIO : errno, "record index in --cache-dir", "written");
    bytes.remove_prefix(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  return absl::OkStatus();
}

// Whether only this user can have written the file (as OpenOwnFile of server/os, which workers'
// sources do not see).
bool IsOwn(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & 077) == 0;
}

}  // namespace

absl::Status IndexDamaged(absl::string_view name, absl::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss, reason::kIndexDamaged,
                   absl::StrCat("the record index of ", Printable(name), " ", what,
                                "; it is built again when the stream is opened again"),
                   {{"file", std::string(name)}});
}

IndexFileWriter::IndexFileWriter(int fd) : fd_(fd) { buffer_.reserve(2 * kBlockBytes); }

absl::Status IndexFileWriter::Append(absl::string_view bytes) {
  payload_bytes_ += bytes.size();
  while (!bytes.empty()) {
    const size_t part = std::min(bytes.size(), kBlockBytes - buffer_.size());
    buffer_.append(bytes.data(), part);
    bytes.remove_prefix(part);
    if (buffer_.size() == kBlockBytes) BULKHEAD_RETURN_IF_ERROR(WriteBlock());
  }
  return absl::OkStatus();
}

absl::Status IndexFileWriter::WriteBlock() {
  AppendLittle<uint32_t>(table_, Crc32c(buffer_));
  BULKHEAD_RETURN_IF_ERROR(WriteAt(fd_, IndexHeader::kBytes + written_bytes_, buffer_));
  written_bytes_ += buffer_.size();
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status IndexFileWriter::Finish(IndexHeader header) {
  if (!buffer_.empty()) BULKHEAD_RETURN_IF_ERROR(WriteBlock());
  AppendLittle<uint64_t>(table_, payload_bytes_);
  BULKHEAD_RETURN_IF_ERROR(WriteAt(fd_, IndexHeader::kBytes + payload_bytes_, table_));
  header.payload_bytes = payload_bytes_ + table_.size();
  header.table_crc32c = Crc32c(table_);
  const auto bytes = header.Serialize();
  return WriteAt(fd_, 0,
                 absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

std::string HandedIndexPath(int fd) { return absl::StrCat(kHandedPrefix, fd); }

absl::StatusOr<MappedIndex> MappedIndex::Open(const std::string& path, absl::string_view name,
                                              uint32_t kind, Checks checks) {
  // Not opened again: a sandbox may refuse to open a file without a name.
  int handed = -1;
  if (absl::SimpleAtoi(absl::StripPrefix(path, kHandedPrefix), &handed)) {
    return Map(handed, name, kind, checks);
  }
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd && errno == ENOENT) return IndexDamaged(name, "is gone");
  if (!fd && errno == ELOOP) return IndexDamaged(name, "is a symbolic link");
  if (!fd) return FileError(errno, absl::StrCat("the record index of ", name), "opened");
  if (!IsOwn(fd.get())) return IndexDamaged(name, "is open to other users");
  return Map(fd.get(), name, kind, checks);
}

absl::StatusOr<MappedIndex> MappedIndex::Map(int fd, absl::string_view name, uint32_t kind,
                                             Checks checks) {
  struct stat info;
  if (fstat(fd, &info) != 0 || info.st_size < static_cast<off_t>(IndexHeader::kBytes)) {
    return IndexDamaged(name, "is shorter than its header");
  }
  const size_t size = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    return FileError(errno, absl::StrCat("the record index of ", name), "mapped");
  }
  MappedIndex index(data, size, name);
  std::array<char, IndexHeader::kBytes> prefix;
  if (!ReadGuarded([&] { std::memcpy(prefix.data(), data, prefix.size()); })) {
    return IndexDamaged(name, "cannot be read");
  }
  const auto header = IndexHeader::Parse({prefix.data(), prefix.size()});
  if (!header.ok()) return IndexDamaged(name, "has a damaged header");
  index.header_ = *header;
  if (index.header_.kind != kind) return IndexDamaged(name, "belongs to another kind of source");
  if (index.header_.payload_bytes != size - IndexHeader::kBytes) {
    return IndexDamaged(name, "has the wrong size");
  }
  BULKHEAD_RETURN_IF_ERROR(index.ReadTable());
  if (checks == Checks::kAtOnce) {
    BULKHEAD_RETURN_IF_ERROR(index.Verify(0, index.payload_bytes_));
  }
  return index;
}

absl::Status MappedIndex::ReadTable() {
  const absl::string_view behind(data_.get() + IndexHeader::kBytes,
                                 data_.get_deleter().size - IndexHeader::kBytes);
  if (behind.size() < kSizeBytes) return IndexDamaged(name_, "has the wrong size");
  if (!ReadGuarded([&] {
        payload_bytes_ = LoadLittle<uint64_t>(behind.data() + behind.size() - kSizeBytes);
      })) {
    return IndexDamaged(name_, "cannot be read");
  }
  if (payload_bytes_ > behind.size() ||
      behind.size() - payload_bytes_ !=
          BlockCount(payload_bytes_) * sizeof(uint32_t) + kSizeBytes) {
    return IndexDamaged(name_, "has the wrong size");
  }
  table_ = behind.data() + payload_bytes_;
  uint32_t crc32c = 0;
  if (!ReadGuarded([&] { crc32c = Crc32c(behind.substr(payload_bytes_)); }) ||
      crc32c != header_.table_crc32c) {
    return IndexDamaged(name_, "does not match its checksum");
  }
  verified_ = std::make_unique<std::atomic<bool>[]>(BlockCount(payload_bytes_));
  return absl::OkStatus();
}

absl::Status MappedIndex::Verify(uint64_t offset, uint64_t bytes) const {
  if (offset > payload_bytes_ || bytes > payload_bytes_ - offset) {
    return IndexDamaged(name_, "is shorter than it says");
  }
  if (bytes == 0) return absl::OkStatus();
  bool matches = true;
  const bool readable = ReadGuarded([&] {
    matches = BlocksMatch(offset / kBlockBytes, (offset + bytes - 1) / kBlockBytes);
    // Blocks that were checked long ago may have left the memory since.
    const volatile char* const begin = payload().data() + offset;
    for (uint64_t i = 0; i < bytes; i += kSmallestPage) (void)begin[i];
    (void)begin[bytes - 1];
  });
  if (!readable) return IndexDamaged(name_, "cannot be read");
  return matches ? absl::OkStatus() : IndexDamaged(name_, "does not match its checksum");
}

absl::Status MappedIndex::VerifyAgain(uint64_t offset, uint64_t bytes) const {
  BULKHEAD_RETURN_IF_ERROR(Verify(offset, bytes));
  for (uint64_t at = offset / kBlockBytes; at * kBlockBytes < offset + bytes; ++at) {
    verified_[at].store(false, std::memory_order_relaxed);
  }
  return Verify(offset, bytes);
}

bool MappedIndex::BlocksMatch(uint64_t first, uint64_t last) const {
  for (uint64_t block = first; block <= last; ++block) {
    if (verified_[block].load(std::memory_order_relaxed)) continue;
    const absl::string_view data = payload().substr(block * kBlockBytes, kBlockBytes);
    if (Crc32c(data) != LoadLittle<uint32_t>(table_ + block * sizeof(uint32_t))) return false;
    verified_[block].store(true, std::memory_order_relaxed);
  }
  return true;
}

void MappedIndex::Unmap::operator()(char* data) const { munmap(data, size); }

absl::string_view MappedIndex::payload() const {
  return absl::string_view(data_.get() + IndexHeader::kBytes, payload_bytes_);
}

}  // namespace bulkhead

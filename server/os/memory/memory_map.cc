#include "server/os/memory/memory_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {
namespace {

constexpr uint64_t kSmallestPage = 4096;
constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr int kSizeSeals = F_SEAL_GROW | F_SEAL_SHRINK;
constexpr int kMessageSeals = kSizeSeals | F_SEAL_WRITE | F_SEAL_SEAL;

int ProtectionOf(MemoryMap::Access access) {
  constexpr int kProtections[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
  return kProtections[static_cast<size_t>(access)];
}

// Maps a file at an address that allows huge pages. MAP_FAILED like mmap.
void* MapAligned(int fd, uint64_t bytes, int protection) {
  if (bytes < kHugePage) return mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  const uint64_t reserved = bytes + kHugePage;
  void* const room =
      mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return room;
  const auto begin = reinterpret_cast<uintptr_t>(room);
  const uintptr_t data = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t end = (data + bytes + kSmallestPage - 1) / kSmallestPage * kSmallestPage;
  void* const mapped =
      mmap(reinterpret_cast<void*>(data), bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    munmap(room, reserved);
    errno = error;
    return mapped;
  }
  if (data > begin) munmap(room, data - begin);
  if (end < begin + reserved) munmap(reinterpret_cast<void*>(end), begin + reserved - end);
  return mapped;
}

absl::StatusOr<UniqueFd> CreateSized(const char* name, uint64_t bytes) {
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return SystemError(errno, "memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return SystemError(errno, absl::StrCat("sizing shared memory to ", bytes, " bytes"));
  }
  return fd;
}

absl::Status AddSeals(int fd, int seals) {
  if (fcntl(fd, F_ADD_SEALS, seals) == 0) return absl::OkStatus();
  return SystemError(errno, "sealing shared memory");
}

}  // namespace

absl::StatusOr<UniqueFd> CreateSharedMemory(const char* name, uint64_t bytes) {
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd fd, CreateSized(name, bytes));
  BULKHEAD_RETURN_IF_ERROR(AddSeals(fd.get(), kSizeSeals | F_SEAL_SEAL));
  return fd;
}

absl::StatusOr<UniqueFd> CreateMemoryToSeal(const char* name, uint64_t bytes) {
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd fd, CreateSized(name, bytes));
  BULKHEAD_RETURN_IF_ERROR(AddSeals(fd.get(), kSizeSeals));
  if (fchmod(fd.get(), 0400) != 0) return SystemError(errno, "closing shared memory to writers");
  return fd;
}

absl::Status SealMemory(int fd, MemoryWriters writers) {
#ifndef F_SEAL_FUTURE_WRITE
  constexpr int F_SEAL_FUTURE_WRITE = 0x0010;  // Linux 5.1
#endif
  const int seal = writers == MemoryWriters::kNobody ? F_SEAL_WRITE : F_SEAL_FUTURE_WRITE;
  return AddSeals(fd, seal | F_SEAL_SEAL);
}

absl::StatusOr<UniqueFd> CreateSealedMessage(absl::string_view bytes) {
  UniqueFd fd(memfd_create("bulkhead-message", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return SystemError(errno, "memfd_create");
  BULKHEAD_RETURN_IF_ERROR(WriteExactly(fd.get(), 0, bytes, "writing a message to shared memory"));
  BULKHEAD_RETURN_IF_ERROR(AddSeals(fd.get(), kMessageSeals));
  return fd;
}

absl::StatusOr<std::string> ReadSealedMessage(int fd, uint64_t max_bytes) {
  if (const int seals = fcntl(fd, F_GET_SEALS); seals < 0 || (seals & F_SEAL_WRITE) == 0) {
    return absl::DataLossError("a message came in a file that is not sealed memory");
  }
  struct stat info;
  if (fstat(fd, &info) != 0) return SystemError(errno, "fstat of a message");
  if (static_cast<uint64_t>(info.st_size) > max_bytes) {
    return absl::DataLossError(absl::StrCat("a message of ", info.st_size, " bytes is too long"));
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  if (!ReadExactly(fd, 0, bytes.data(), bytes.size())) {
    return absl::DataLossError("a message ended early");
  }
  return bytes;
}

MemoryMap::~MemoryMap() {
  if (data_ != nullptr) munmap(data_, size_);
}

MemoryMap::MemoryMap(MemoryMap&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MemoryMap& MemoryMap::operator=(MemoryMap&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

absl::StatusOr<MemoryMap> MemoryMap::Map(int fd, uint64_t bytes, Access access) {
  struct stat info;
  if (fstat(fd, &info) != 0) return SystemError(errno, "fstat of shared memory");
  if (bytes == 0 || static_cast<uint64_t>(info.st_size) < bytes) {
    return absl::InvalidArgumentError(absl::StrCat("shared memory holds ", info.st_size, " bytes, ",
                                                   bytes, " were to be mapped"));
  }
  void* data = MapAligned(fd, bytes, ProtectionOf(access));
  if (data == MAP_FAILED) return SystemError(errno, absl::StrCat("mapping ", bytes, " bytes"));
  MemoryMap map;
  map.data_ = static_cast<std::byte*>(data);
  map.size_ = bytes;
  return map;
}

bool MemoryMap::Discard(uint64_t offset, uint64_t bytes) const {
  return madvise(data_ + offset, bytes, MADV_REMOVE) == 0;
}

void MemoryMap::Forget(uint64_t offset, uint64_t bytes) const {
  const uint64_t begin = offset / kSmallestPage * kSmallestPage;
  madvise(data_ + begin, offset + bytes - begin, MADV_DONTNEED);
}

void MemoryMap::Prefault(uint64_t offset, uint64_t bytes) const {
#ifdef MADV_POPULATE_WRITE
  if (madvise(data_ + offset, bytes, MADV_POPULATE_WRITE) == 0 || errno != EINVAL) return;
#endif
  // Kernels before 5.14 lack that advice. This write changes nothing, even while others write.
  for (uint64_t at = offset; at < offset + bytes; at += kSmallestPage) {
    __atomic_fetch_or(reinterpret_cast<unsigned char*>(data_ + at), 0, __ATOMIC_RELAXED);
  }
}

void MemoryMap::UseHugePages(uint64_t offset, uint64_t bytes) const {
#ifndef MADV_COLLAPSE
  constexpr int MADV_COLLAPSE = 25;  // Linux 6.1
#endif
  if (bytes >= 2 * kHugePage) madvise(data_ + offset, bytes, MADV_COLLAPSE);
}

void MemoryMap::PrefaultClosed(uint64_t offset, uint64_t bytes) const {
#ifdef MADV_POPULATE_READ
  if (mprotect(data_ + offset, bytes, PROT_READ) != 0) return;
  // Kernels before 5.14 lack that advice; there the first write faults.
  madvise(data_ + offset, bytes, MADV_POPULATE_READ);
  mprotect(data_ + offset, bytes, PROT_NONE);
#endif
}

absl::Status MemoryMap::Protect(uint64_t offset, uint64_t bytes, Access access) const {
  if (mprotect(data_ + offset, bytes, ProtectionOf(access)) == 0) return absl::OkStatus();
  return SystemError(errno, absl::StrCat("protecting ", bytes, " bytes of a mapping"));
}

}  // namespace bulkhead

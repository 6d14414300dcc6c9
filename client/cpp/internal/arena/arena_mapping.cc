#include "client/cpp/internal/arena/arena_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/base/error.h"

namespace bulkhead::client_internal {
namespace {

absl::Status Unusable(absl::string_view why) {
  return MakeClientError(absl::StatusCode::kFailedPrecondition,
                         client_reason::kTransportUnavailable,
                         absl::StrCat("the arena cannot be used: ", why));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ArenaMapping>> ArenaMapping::Map(int fd,
                                                                      const v1::ArenaGrant& grant) {
  uint64_t bytes = 0;
  struct stat info {};
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return Unusable("it is no memfd");
  if ((seals & kSeals) != kSeals) return Unusable("it is not sealed against growing and shrinking");
  if (fstat(fd, &info) != 0) return Unusable(std::strerror(errno));
  if (grant.slot_count() == 0 || grant.slot_bytes() == 0 || grant.slot_bytes() % 64 != 0 ||
      __builtin_mul_overflow(grant.slot_bytes(), uint64_t{grant.slot_count()}, &bytes) ||
      bytes != static_cast<uint64_t>(info.st_size)) {
    return Unusable(absl::StrCat("it has ", info.st_size, " bytes, ", grant.slot_count(),
                                 " slots of ", grant.slot_bytes(), " bytes were announced"));
  }
  // Writable because DLPack and PyTorch know no read-only tensors.
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    return Unusable(absl::StrCat("mapping its ", bytes, " bytes failed: ", std::strerror(errno)));
  }
  return std::shared_ptr<const ArenaMapping>(new ArenaMapping(static_cast<uint8_t*>(base), grant));
}

ArenaMapping::~ArenaMapping() { munmap(base_, slot_bytes_ * slot_count_); }

}  // namespace bulkhead::client_internal

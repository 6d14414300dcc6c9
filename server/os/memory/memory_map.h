#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// Anonymous shared memory of a fixed size: a memfd, close-on-exec, sealed against growing,
// shrinking and further sealing. `name` shows in /proc/PID/maps. The process that first touches a
// page is charged for it.
absl::StatusOr<UniqueFd> CreateSharedMemory(const char* name, uint64_t bytes);

// The same for memory that SealMemory closes to writers later. Only its owner may open it, and only
// for reading.
absl::StatusOr<UniqueFd> CreateMemoryToSeal(const char* name, uint64_t bytes);
// Who writes such memory from now on, whoever has it open: nobody, or who has mapped it writable
// before. Cannot be undone. UNAVAILABLE while somebody else has it mapped writable, for kNobody;
// INVALID_ARGUMENT for kMappings before Linux 5.1.
enum class MemoryWriters { kNobody, kMappings };
absl::Status SealMemory(int fd, MemoryWriters writers);

// A read-only memfd that holds `bytes`, for messages too large for a packet.
absl::StatusOr<UniqueFd> CreateSealedMessage(absl::string_view bytes);
// Limit of such a message.
inline constexpr uint64_t kMaxMessageBytes = uint64_t{256} << 20;
// Reads such a message. DATA_LOSS if it is longer than `max_bytes`, or the descriptor is something
// else; its seals are checked first, because another kind of file might block.
absl::StatusOr<std::string> ReadSealedMessage(int fd, uint64_t max_bytes = kMaxMessageBytes);

// A shared mapping of a descriptor's first `size()` bytes; unmapped on destruction. Movable.
class MemoryMap {
 public:
  MemoryMap() = default;
  ~MemoryMap();
  MemoryMap(MemoryMap&& other) noexcept;
  MemoryMap& operator=(MemoryMap&& other) noexcept;

  // What this process may do with pages; anything else ends it by SIGSEGV.
  enum class Access { kNone, kRead, kReadWrite };

  // Fails if `fd` is shorter than `bytes`: a later access would end the process by SIGBUS. Without
  // access the mapping stays closed until Protect allows it.
  static absl::StatusOr<MemoryMap> Map(int fd, uint64_t bytes, Access access = Access::kReadWrite);

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }

  // Faults the pages of [offset, offset + bytes) in for writing. Best effort.
  void Prefault(uint64_t offset, uint64_t bytes) const;
  // Moves the present pages of [offset, offset + bytes) of shared memory into huge pages, where
  // these fit wholly and the kernel has some. Mapping and protecting them is then hundreds of times
  // faster, for all who map the memory. Takes 1 ms per MiB and keeps the content. Best effort.
  void UseHugePages(uint64_t offset, uint64_t bytes) const;
  // Like Prefault, for closed pages: they are readable meanwhile, but never writable.
  void PrefaultClosed(uint64_t offset, uint64_t bytes) const;

  // Allows this process to read and write the pages of [offset, offset + bytes), or forbids any
  // access: it ends the process by SIGSEGV. Both numbers are multiples of the page size.
  // RESOURCE_EXHAUSTED if the kernel has no memory for another mapping.
  absl::Status Protect(uint64_t offset, uint64_t bytes, Access access) const;

  // Frees the pages of shared memory in [offset, offset + bytes) for all who map them. False if the
  // kernel refuses.
  bool Discard(uint64_t offset, uint64_t bytes) const;

  // Drops the pages of a mapped file in [offset, offset + bytes) from this process, so that rarely
  // used data does not count as its memory. The file keeps its content, and the next access finds
  // it. Best effort.
  void Forget(uint64_t offset, uint64_t bytes) const;

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace bulkhead

#ifndef BULKHEAD_SERVER_OS_MEMORY_MEMORY_MAP_H_
#define BULKHEAD_SERVER_OS_MEMORY_MEMORY_MAP_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// Anonymous shared memory of a fixed size: a memfd, close-on-exec, sealed against growing,
// shrinking and further sealing. `name` shows in /proc/PID/maps. Pages are charged to the process
// that touches them first.
absl::StatusOr<UniqueFd> CreateSharedMemory(const char* name, uint64_t bytes);

// A memfd that holds `bytes` and can only be read: for messages too large for a packet.
absl::StatusOr<UniqueFd> CreateSealedMessage(absl::string_view bytes);
// The longest message that may be sent this way.
inline constexpr uint64_t kMaxMessageBytes = uint64_t{256} << 20;
// Reads such a message back. DATA_LOSS when the descriptor is none (its seals are asked for before
// anything else: another kind of file might block), or it is longer than `max_bytes`.
absl::StatusOr<std::string> ReadSealedMessage(int fd, uint64_t max_bytes = kMaxMessageBytes);

// A mapping of a descriptor's first `size()` bytes, shared; unmapped on destruction. Movable.
class MemoryMap {
 public:
  MemoryMap() = default;
  ~MemoryMap();
  MemoryMap(MemoryMap&& other) noexcept;
  MemoryMap& operator=(MemoryMap&& other) noexcept;

  // Readable and writable. Fails when `fd` is shorter than `bytes`: a later access would end the
  // process by SIGBUS.
  static absl::StatusOr<MemoryMap> Map(int fd, uint64_t bytes);
  // The same for reading alone: a write ends the process.
  static absl::StatusOr<MemoryMap> MapReadOnly(int fd, uint64_t bytes);
  // The same with no access at all, until Protect gives some.
  static absl::StatusOr<MemoryMap> MapClosed(int fd, uint64_t bytes);

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }

  // Touches the pages of [offset, offset + bytes) for writing, so that no later write faults. Best
  // effort.
  void Prefault(uint64_t offset, uint64_t bytes) const;
  // Puts the present pages of [offset, offset + bytes) of shared memory into huge pages, as far as
  // these lie wholly within and the kernel has some: then it takes hundreds of times less to map
  // them, and to change their protection, for all who have mapped the memory. Takes 1 ms for each
  // MiB; what stands there stays. Best effort.
  void UseHugePages(uint64_t offset, uint64_t bytes) const;
  // As Prefault, without ever making them writable, for pages that are closed before and after:
  // they can be read meanwhile.
  void PrefaultClosed(uint64_t offset, uint64_t bytes) const;

  // Lets this process read and write the pages of [offset, offset + bytes), or not touch them at
  // all: an access ends it by SIGSEGV. Both are multiples of the page size. RESOURCE_EXHAUSTED when
  // the kernel has no memory for one more mapping.
  enum class Access { kNone, kReadWrite };
  absl::Status Protect(uint64_t offset, uint64_t bytes, Access access) const;

  // Of shared memory: frees the pages in [offset, offset + bytes) for all who have them mapped.
  // False when the kernel does not do that.
  bool Discard(uint64_t offset, uint64_t bytes) const;

  // Of a mapped file: takes the pages in [offset, offset + bytes) out of this process; the file
  // keeps what stands in them, and the next access finds it there. For what is touched once in a
  // while, and must not count as this process's memory meanwhile. Best effort.
  void Forget(uint64_t offset, uint64_t bytes) const;

 private:
  static absl::StatusOr<MemoryMap> Map(int fd, uint64_t bytes, int protection);

  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_MEMORY_MEMORY_MAP_H_

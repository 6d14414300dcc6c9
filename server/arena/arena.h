#ifndef BULKHEAD_SERVER_ARENA_ARENA_H_
#define BULKHEAD_SERVER_ARENA_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "server/os/memory/memory_map.h"

namespace bulkhead {

// One stream's batch memory: a sealed memfd cut into slots of equal size, one batch each. The
// supervisor creates it (its pages are charged there) and passes the descriptor to the workers,
// which attach. Both sides of the process wall use this class; it keeps no state in the shared
// memory, since a worker could write anything there.
//
//     memfd:  | slot 0 | slot 1 | slot 2 | … |      slot_bytes each, a multiple of the page size
//
// Who creates an arena may touch all of it; who attaches may touch the slots that it has opened.
//
// Immutable after Create or Attach, so thread-safe; what is in the slots, and which are open, is
// its users' concern.
class Arena {
 public:
  static constexpr uint64_t kSlotAlignment = 4096;

  static absl::StatusOr<std::shared_ptr<Arena>> Create(uint64_t slot_bytes, uint32_t slot_count);
  // Maps an arena of that shape, every slot closed: an access ends the process by SIGSEGV. The
  // descriptor is closed, since a worker may have many arenas and few descriptors.
  // INVALID_ARGUMENT when `fd` is too small for it.
  static absl::StatusOr<std::shared_ptr<Arena>> Attach(UniqueFd fd, uint64_t slot_bytes,
                                                       uint32_t slot_count);

  // Of an arena that was created here; -1 for one that is attached.
  int fd() const { return fd_.get(); }
  uint64_t slot_bytes() const { return slot_bytes_; }
  uint32_t slot_count() const { return slot_count_; }
  uint64_t bytes() const { return map_.size(); }
  // Begin of a slot's memory.
  std::byte* slot(uint32_t index) const { return map_.data() + index * slot_bytes_; }
  // Makes the slot's pages present, so that there are no page faults on them later.
  void Prefault(uint32_t index) const { map_.Prefault(index * slot_bytes_, slot_bytes_); }
  // Makes it cheap for guests to open and close the slot, once it is prefaulted.
  void UseHugePages(uint32_t index) const { map_.UseHugePages(index * slot_bytes_, slot_bytes_); }
  // As Prefault, of a closed slot of an arena that is attached.
  void PrefaultClosed(uint32_t index) const {
    map_.PrefaultClosed(index * slot_bytes_, slot_bytes_);
  }
  // Of an arena that is attached. Errors as MemoryMap::Protect's.
  absl::Status Open(uint32_t index) const {
    return map_.Protect(index * slot_bytes_, slot_bytes_, MemoryMap::Access::kReadWrite);
  }
  absl::Status Close(uint32_t index) const {
    return map_.Protect(index * slot_bytes_, slot_bytes_, MemoryMap::Access::kNone);
  }
  // Gives the slot's pages back to the system, even if they are mapped; it reads as zeros from then
  // on. False when the kernel does not do that.
  bool Discard(uint32_t index) const { return map_.Discard(index * slot_bytes_, slot_bytes_); }

 private:
  Arena(UniqueFd fd, MemoryMap map, uint64_t slot_bytes, uint32_t slot_count);

  UniqueFd fd_;
  MemoryMap map_;
  uint64_t slot_bytes_;
  uint32_t slot_count_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_ARENA_ARENA_H_

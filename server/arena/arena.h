#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "server/os/memory/memory_map.h"

namespace bulkhead {

// One stream's batch memory: a sealed memfd cut into slots of equal size, one batch each. The
// supervisor creates it, so its pages are charged there, and passes the descriptor to the workers,
// which attach. Both processes use this class. It keeps no state in the shared memory, where a
// worker could write anything.
//
//     memfd:  | slot 0 | slot 1 | slot 2 | … |      slot_bytes each, a multiple of the page size
//
// The creator may touch the whole arena, a worker only the slots that it has opened.
//
// Immutable after Create or Attach, so thread-safe; users coordinate the slots' content and which
// are open.
class Arena {
 public:
  static constexpr uint64_t kSlotAlignment = 4096;

  static absl::StatusOr<std::shared_ptr<Arena>> Create(uint64_t slot_bytes, uint32_t slot_count);
  // Maps an arena of that shape with every slot closed: an access ends the process by SIGSEGV.
  // Closes the descriptor, because a worker may have many arenas and few descriptors.
  // INVALID_ARGUMENT if `fd` is too small.
  static absl::StatusOr<std::shared_ptr<Arena>> Attach(UniqueFd fd, uint64_t slot_bytes,
                                                       uint32_t slot_count);

  // -1 in an attached arena.
  int fd() const { return fd_.get(); }
  uint64_t slot_bytes() const { return slot_bytes_; }
  uint32_t slot_count() const { return slot_count_; }
  // Those that a stream fills as a rule: all but the last, its reserve. That one's pages are not
  // touched before it is needed.
  uint32_t usual_slots() const { return slot_count_ - 1; }
  uint64_t bytes() const { return map_.size(); }
  // Start of a slot's memory.
  std::byte* slot(uint32_t index) const { return map_.data() + index * slot_bytes_; }
  // Populates the slot's pages, to avoid page faults later.
  void Prefault(uint32_t index) const { map_.Prefault(index * slot_bytes_, slot_bytes_); }
  // Makes opening and closing the prefaulted slot cheap for those that attach.
  void UseHugePages(uint32_t index) const { map_.UseHugePages(index * slot_bytes_, slot_bytes_); }
  // Like Prefault, for a closed slot of an attached arena.
  void PrefaultClosed(uint32_t index) const {
    map_.PrefaultClosed(index * slot_bytes_, slot_bytes_);
  }
  // For an attached arena. Errors: those of MemoryMap::Protect.
  absl::Status Open(uint32_t index) const {
    return map_.Protect(index * slot_bytes_, slot_bytes_, MemoryMap::Access::kReadWrite);
  }
  absl::Status Close(uint32_t index) const {
    return map_.Protect(index * slot_bytes_, slot_bytes_, MemoryMap::Access::kNone);
  }
  // Returns the slot's pages to the system, even if they are mapped; the slot then reads as zeros.
  // False if the kernel refuses.
  bool Discard(uint32_t index) const { return map_.Discard(index * slot_bytes_, slot_bytes_); }

 private:
  Arena(UniqueFd fd, MemoryMap map, uint64_t slot_bytes, uint32_t slot_count);

  UniqueFd fd_;
  MemoryMap map_;
  uint64_t slot_bytes_;
  uint32_t slot_count_;
};

}  // namespace bulkhead

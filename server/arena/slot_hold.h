#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "server/arena/arena.h"

namespace bulkhead {

// A delivered batch's claim on its slot; the slot is reused after the last copy of the shared_ptr
// is gone. May be dropped on any thread, and after the stream or the supervisor has ended.
class SlotHold {
 public:
  // `left`: the reader disconnected with the slot mapped, and may still read it.
  using OnReleased = std::function<void(bool left)>;

  SlotHold(std::shared_ptr<Arena> arena, uint32_t slot, OnReleased release)
      : arena_(std::move(arena)), slot_(slot), release_(std::move(release)) {}
  ~SlotHold() { release_(left_); }
  SlotHold(const SlotHold&) = delete;
  SlotHold& operator=(const SlotHold&) = delete;

  const std::byte* data() const { return arena_->slot(slot_); }
  uint32_t slot() const { return slot_; }
  // The reader had the slot mapped and disconnected without releasing it.
  void NoteLeft() const { left_ = true; }

 private:
  const std::shared_ptr<Arena> arena_;
  const uint32_t slot_;
  const OnReleased release_;
  mutable std::atomic<bool> left_{false};
};

}  // namespace bulkhead

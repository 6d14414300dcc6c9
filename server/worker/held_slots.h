#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/arena/arena.h"
#include "server/arena/flight_recorder.h"

namespace bulkhead {

// The slots of an arena that this worker may touch: those it is working on. All others are closed,
// so that a stage's wild pointer ends the worker instead of changing a batch that the trainer
// holds. A slot is opened when work on its first lease begins, and closed after the worker's last
// lease of it, so that page tables change twice a batch, not twice a lease.
//
//   auto slots = std::make_shared<HeldSlots>(arena);
//   HeldSlots::Hold hold(slots, lease.slot());  // when the lease comes
//   hold.Begin();
//   … slots->slot(lease.slot()) may be written …
//   hold.Release();  // before the lease is reported done
//
// Thread-safe, except a Hold's Release.
class HeldSlots {
 public:
  explicit HeldSlots(std::shared_ptr<const Arena> arena);
  ~HeldSlots();
  HeldSlots(const HeldSlots&) = delete;
  HeldSlots& operator=(const HeldSlots&) = delete;

  // A lease of this worker in a slot. Movable; its destruction releases it.
  class Hold {
   public:
    Hold() = default;
    Hold(std::shared_ptr<HeldSlots> slots, uint32_t slot);
    ~Hold() { Release(); }
    Hold(Hold&& other) noexcept : slots_(std::move(other.slots_)), slot_(other.slot_) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(slots_, other.slots_);
      std::swap(slot_, other.slot_);
      return *this;
    }
    // Opens the slot unless it is open. If the kernel lacks memory for that, ends the process like
    // a refused allocation.
    void Begin() const;
    void Release();

   private:
    std::shared_ptr<HeldSlots> slots_;
    uint32_t slot_ = 0;
  };

  // Start of a slot's memory.
  std::byte* slot(uint32_t index) const { return arena_->slot(index); }
  // Populates the pages of the usual slots, to avoid page faults later.
  void Prefault();

 private:
  struct Slot {
    uint32_t holds = 0;
    bool open = false;
  };

  const std::shared_ptr<const Arena> arena_;
  absl::Mutex mutex_;
  std::vector<Slot> held_ ABSL_GUARDED_BY(mutex_);  // by slot
};

// From now on, an access to a closed slot of any arena is noted in `recorder`: the slot, the stage
// and the thread. `recorder` must live as long as the process.
void NoteWildAccesses(const FlightRecorder& recorder);

}  // namespace bulkhead

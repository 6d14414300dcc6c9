#ifndef BULKHEAD_SERVER_WORKER_HELD_SLOTS_H_
#define BULKHEAD_SERVER_WORKER_HELD_SLOTS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/arena/arena.h"
#include "server/arena/flight_recorder.h"

namespace bulkhead {

// Which slots of an arena this worker may touch: those that it is working on. All others are
// closed, so that a wild pointer of some stage ends the worker instead of changing a batch that the
// trainer holds. A slot is opened when work on the first of its leases begins and closed behind the
// last one that the worker has, so that page tables change twice a batch, not twice a lease.
//
//   auto slots = std::make_shared<HeldSlots>(arena);
//   HeldSlots::Hold hold(slots, lease.slot());  // when the lease comes
//   hold.Begin();
//   … slots->slot(lease.slot()) may be written …
//   hold.Release();  // before anybody is told that the lease is done
//
// Thread-safe, a Hold's Release aside.
class HeldSlots {
 public:
  explicit HeldSlots(std::shared_ptr<const Arena> arena);
  ~HeldSlots();
  HeldSlots(const HeldSlots&) = delete;
  HeldSlots& operator=(const HeldSlots&) = delete;

  // A lease that this worker has in a slot. Movable; released on destruction at the latest.
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
    // Opens the slot unless it is open. A kernel without memory for that ends the process as a
    // refused allocation does.
    void Begin() const;
    void Release();

   private:
    std::shared_ptr<HeldSlots> slots_;
    uint32_t slot_ = 0;
  };

  // Begin of a slot's memory.
  std::byte* slot(uint32_t index) const { return arena_->slot(index); }
  // Makes the pages of all slots present, so that there are no page faults on them later.
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

// From now on an access to a closed slot of any arena is noted in `recorder`, which must live as
// long as the process: the slot, the stage and the thread.
void NoteWildAccesses(const FlightRecorder& recorder);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_WORKER_HELD_SLOTS_H_

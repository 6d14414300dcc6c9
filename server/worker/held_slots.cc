#include "server/worker/held_slots.h"

#include <unistd.h>

#include <array>
#include <atomic>

#include "server/arena/exit_codes.h"
#include "server/os/memory/memory_fault.h"
#include "server/worker/current_stage.h"

namespace bulkhead {
namespace {

// The ranges of mapped arenas, for a signal handler: fixed size, no locks. Further arenas are
// closed too, but accesses to them look like any other crash.
struct Range {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};  // 0: unused
  std::atomic<uint64_t> slot_bytes{1};
};
constexpr size_t kMaxRanges = 256;
constinit std::array<Range, kMaxRanges> ranges;

std::atomic<FlightHeader*> noted_in{nullptr};

void AddRange(const Arena& arena) {
  for (Range& range : ranges) {
    if (range.taken.exchange(true)) continue;
    range.begin = reinterpret_cast<uintptr_t>(arena.slot(0));
    range.slot_bytes = arena.slot_bytes();
    range.end = range.begin + arena.bytes();
    return;
  }
}

void RemoveRange(const Arena& arena) {
  const auto begin = reinterpret_cast<uintptr_t>(arena.slot(0));
  for (Range& range : ranges) {
    if (range.end == 0 || range.begin != begin) continue;
    range.end = 0;
    range.taken = false;
    return;
  }
}

void NoteFault(const MemoryFault& fault) {
  FlightHeader& header = *noted_in;
  for (const Range& range : ranges) {
    if (fault.address < range.begin || fault.address >= range.end) continue;
    header.wild_stage = current_stage.stage;
    header.wild_access = static_cast<uint32_t>(fault.access);
    header.wild_slot = static_cast<uint32_t>((fault.address - range.begin) / range.slot_bytes);
    return;
  }
}

void EndIfRefused(const absl::Status& status) {
  if (!status.ok()) _exit(kExitOutOfMemory);
}

}  // namespace

HeldSlots::HeldSlots(std::shared_ptr<const Arena> arena)
    : arena_(std::move(arena)), held_(arena_->slot_count()) {
  AddRange(*arena_);
}

HeldSlots::~HeldSlots() { RemoveRange(*arena_); }

HeldSlots::Hold::Hold(std::shared_ptr<HeldSlots> slots, uint32_t slot)
    : slots_(std::move(slots)), slot_(slot) {
  absl::MutexLock lock(&slots_->mutex_);
  ++slots_->held_[slot_].holds;
}

void HeldSlots::Hold::Begin() const {
  absl::MutexLock lock(&slots_->mutex_);
  Slot& slot = slots_->held_[slot_];
  if (slot.open) return;
  EndIfRefused(slots_->arena_->Open(slot_));
  slot.open = true;
}

void HeldSlots::Hold::Release() {
  if (slots_ == nullptr) return;
  {
    absl::MutexLock lock(&slots_->mutex_);
    Slot& slot = slots_->held_[slot_];
    if (--slot.holds == 0 && slot.open) {
      EndIfRefused(slots_->arena_->Close(slot_));
      slot.open = false;
    }
  }
  slots_.reset();
}

void HeldSlots::Prefault() {
  for (uint32_t slot = 0; slot < arena_->usual_slots(); ++slot) {
    absl::MutexLock lock(&mutex_);
    held_[slot].open ? arena_->Prefault(slot) : arena_->PrefaultClosed(slot);
  }
}

void NoteWildAccesses(const FlightRecorder& recorder) {
  noted_in = &recorder.header();
  NoteMemoryFaults(&NoteFault);
}

}  // namespace bulkhead

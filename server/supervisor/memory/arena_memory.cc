#include "server/supervisor/memory/arena_memory.h"

#include <utility>

namespace bulkhead {

void ArenaMemory::Hold(uint32_t slot) {
  absl::MutexLock lock(&mutex_);
  held_.insert(slot);
  left_.erase(slot);
}

void ArenaMemory::Release(uint32_t slot, bool left) {
  absl::MutexLock lock(&mutex_);
  held_.erase(slot);
  if (left) left_.insert(slot);
  if (retired_) GiveBack(slot);
}

void ArenaMemory::Retire() {
  absl::MutexLock lock(&mutex_);
  retired_ = true;
  for (uint32_t slot = 0; slot < arena_->slot_count(); ++slot) {
    if (held_.count(slot) == 0) GiveBack(slot);
  }
  claim_.MarkStaying();  // the other slots may be read for any length of time
}

void ArenaMemory::GiveBack(uint32_t slot) {
  if (left_.count(slot) == 0 && !arena_->Discard(slot)) return;
  MemoryClaim part = claim_.Split(arena_->slot_bytes());
  if (const std::shared_ptr<Legacy> heir = heir_.lock()) heir->Add(std::move(part));
}

std::shared_ptr<Legacy> ArenaMemory::Bequeath(std::shared_ptr<const void> workers) {
  auto legacy = std::make_shared<Legacy>(std::move(workers));
  absl::MutexLock lock(&mutex_);
  heir_ = legacy;
  if (!retired_) claim_.MarkReturning();
  return legacy;
}

}  // namespace bulkhead

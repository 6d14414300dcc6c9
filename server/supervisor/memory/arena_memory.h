#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/arena/arena.h"
#include "server/supervisor/memory/memory_budget.h"

namespace bulkhead {

// What a stream leaves to its client's next stream: the workers, and the arena's memory as it
// becomes free. No other stream gets them while this object lives. Thread-safe.
class Legacy {
 public:
  // `workers`: an object that keeps the workers from being given up.
  explicit Legacy(std::shared_ptr<const void> workers) : workers_(std::move(workers)) {}

  void Add(MemoryClaim part) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    claim_.Merge(std::move(part));
  }
  uint64_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return claim_.bytes();
  }
  MemoryClaim Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return std::move(claim_);
  }

 private:
  const std::shared_ptr<const void> workers_;
  mutable absl::Mutex mutex_;
  MemoryClaim claim_ ABSL_GUARDED_BY(mutex_);
};

// An arena's pages and its part of the budget. The whole arena counts while anything may write to
// it: its stream, or a worker that has it mapped. After that only slots that are still read count;
// each slot's pages are given back when its last reader is gone.
//
//   writer() copies:  stream, workers ──the last one goes──▶ retired: held slots alone count
//
// Thread-safe.
class ArenaMemory : public std::enable_shared_from_this<ArenaMemory> {
 public:
  // `claim` covers the whole arena, or is empty.
  ArenaMemory(std::shared_ptr<Arena> arena, MemoryClaim claim)
      : arena_(std::move(arena)), claim_(std::move(claim)) {}

  // Each party that may write to the arena holds a copy. Call it once.
  std::shared_ptr<const void> MakeWriter() {
    return std::shared_ptr<const void>(
        this, [self = shared_from_this()](const void*) { self->Retire(); });
  }
  // A reader begins, or ends, to use the slot. `left`: a client disconnected with the slot mapped,
  // so the pages must not change until it unmaps them.
  void Hold(uint32_t slot) ABSL_LOCKS_EXCLUDED(mutex_);
  void Release(uint32_t slot, bool left = false) ABSL_LOCKS_EXCLUDED(mutex_);

  // The stream ends: marks the slots that no reader holds as returning.
  void MarkReturning() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (!retired_) claim_.MarkReturning();
  }
  // Like MarkReturning, but the result's owner keeps what is returned, and `workers`.
  std::shared_ptr<Legacy> Bequeath(std::shared_ptr<const void> workers) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Retire() ABSL_LOCKS_EXCLUDED(mutex_);
  void GiveBack(uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<Arena> arena_;
  absl::Mutex mutex_;
  MemoryClaim claim_ ABSL_GUARDED_BY(mutex_);
  std::set<uint32_t> held_ ABSL_GUARDED_BY(mutex_);
  std::set<uint32_t> left_ ABSL_GUARDED_BY(mutex_);
  std::weak_ptr<Legacy> heir_ ABSL_GUARDED_BY(mutex_);
  bool retired_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bulkhead

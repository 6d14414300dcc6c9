#ifndef BULKHEAD_SERVER_SUPERVISOR_ARENA_MEMORY_H_
#define BULKHEAD_SERVER_SUPERVISOR_ARENA_MEMORY_H_

#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/arena/arena.h"
#include "server/supervisor/memory_budget.h"

namespace bulkhead {

// What a stream leaves to the one that its client opens next. While this object lives nobody else
// gets it: the workers, and the arena's memory as it becomes free. Thread-safe.
class Legacy {
 public:
  // `workers`: what keeps them from being given up.
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

// An arena's pages and its part of the budget. All of it counts while anybody may write to the
// arena: its stream, or a worker that has it mapped. Afterwards only the slots that somebody still
// reads do; the pages of each slot are given back when its last reader is gone.
//
//   writer() copies:  stream, workers ──the last one goes──▶ retired: held slots alone count
//
// Thread-safe.
class ArenaMemory : public std::enable_shared_from_this<ArenaMemory> {
 public:
  // The claim is that of the whole arena, or empty.
  ArenaMemory(std::shared_ptr<Arena> arena, MemoryClaim claim);

  // Whoever may write to the arena has a copy. To be called once.
  std::shared_ptr<const void> MakeWriter();
  // Somebody reads the slot; nobody does any more. `left`: a client has it mapped who went without
  // a word about it, so its pages stay as they are until that has unmapped them.
  void Hold(uint32_t slot) ABSL_LOCKS_EXCLUDED(mutex_);
  void Release(uint32_t slot, bool left = false) ABSL_LOCKS_EXCLUDED(mutex_);

  // The stream ends: what is not held is on its way back.
  void MarkReturning() ABSL_LOCKS_EXCLUDED(mutex_);
  // As MarkReturning; and what comes back is kept for whoever has the result, as are `workers`.
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

#endif  // BULKHEAD_SERVER_SUPERVISOR_ARENA_MEMORY_H_

#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

class MemoryBudget;

// A promised part of the budget, given back on destruction. Movable.
class MemoryClaim {
 public:
  MemoryClaim() = default;
  ~MemoryClaim() { Release(); }
  MemoryClaim(MemoryClaim&& other) noexcept = default;
  MemoryClaim& operator=(MemoryClaim&& other) noexcept;

  void Release();
  // Counts the memory as on its way back: it is freed with this object, once the processes that
  // hold it have ended.
  void MarkReturning() { SetReturning(true); }
  // Undoes MarkReturning: the memory stays in use, or it is unknown when it comes back.
  void MarkStaying() { SetReturning(false); }
  // Splits off up to so many of the arena's bytes, and of the workers' quotas, as a claim of its
  // own.
  MemoryClaim Split(uint64_t arena_bytes, uint64_t quota_bytes = 0);
  // Takes over what `other` holds of the same budget.
  void Merge(MemoryClaim other);
  uint64_t bytes() const { return budget_ == nullptr ? 0 : arena_bytes_ + quota_bytes_; }
  uint64_t quota_bytes() const { return budget_ == nullptr ? 0 : quota_bytes_; }

 private:
  friend class MemoryBudget;
  MemoryClaim(std::shared_ptr<MemoryBudget> budget, uint64_t arena_bytes, uint64_t quota_bytes)
      : budget_(std::move(budget)), arena_bytes_(arena_bytes), quota_bytes_(quota_bytes) {}
  void SetReturning(bool returning);

  std::shared_ptr<MemoryBudget> budget_;
  uint64_t arena_bytes_ = 0;
  uint64_t quota_bytes_ = 0;
  bool returning_ = false;
};

// The memory that the service may use, and what it has promised of it. At any time
//
//   supervisor + arenas (retired ones too) + quotas of all workers + one replacement's quota
//     ≤ the lower of the budget and 90% of the container's limit
//
// except after that limit is lowered: then nothing is promised until enough has come back.
// Thread-safe; every promise is checked and made in one step.
class MemoryBudget : public std::enable_shared_from_this<MemoryBudget> {
 public:
  // The container's limit also covers page cache and kernel memory.
  static uint64_t UsableOf(uint64_t limit_bytes) { return limit_bytes / 10 * 9; }

  struct Config {
    uint64_t budget_bytes = std::numeric_limits<uint64_t>::max();
    uint64_t limit_bytes = std::numeric_limits<uint64_t>::max();
    uint64_t supervisor_bytes = 0;
    // Reserved for the one worker that may run beside the worker it replaces.
    uint64_t replacement_bytes = 0;
  };
  // RESOURCE_EXHAUSTED (BUDGET_EXCEEDED), with the arithmetic, if not even one worker fits.
  static absl::StatusOr<std::shared_ptr<MemoryBudget>> Create(const Config& config);

  // What a stream asks for.
  struct Demand {
    uint32_t slot_count = 0;
    uint64_t slot_bytes = 0;
    // Workers wanted for its pipeline; 0: the pipeline already has its workers.
    uint32_t workers = 0;
    uint64_t worker_quota_bytes = 0;
    // The part already promised to its predecessor and inherited from it.
    uint64_t inherited_bytes = 0;
    // Further slots, of which as many are promised as an eighth of what is free afterwards holds.
    // Nobody waits for them or gives up anything.
    uint32_t more_slots = 0;
    const char* asker = "this stream";  // for the refusal
  };
  struct Admission {
    MemoryClaim arena;
    uint32_t slot_count = 0;
    MemoryClaim workers;
    uint32_t worker_count = 0;
  };
  // Promises the arena without the inherited part, and as many of the workers as fit. Errors:
  // RESOURCE_EXHAUSTED (BUDGET_EXCEEDED), with the arithmetic and what to change, if the arena and
  // one worker (if any is wanted) do not fit.
  absl::StatusOr<Admission> Admit(const Demand& demand) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether Admit would promise all of `demand`.
  bool FitsWholly(const Demand& demand) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, once all returning memory has come back.
  bool WillFitWholly(const Demand& demand) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether Admit would promise anything, once that and `more_bytes` have come back.
  bool CouldAdmit(const Demand& demand, uint64_t more_bytes) const ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t returning_bytes() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return returning_bytes_;
  }
  uint64_t free_bytes() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return Free();
  }
  // Waits until `demand` fits wholly, no memory is returning, or `patience` is over.
  void AwaitRoom(const Demand& demand, absl::Duration patience) const ABSL_LOCKS_EXCLUDED(mutex_);

  // For a worker that belongs to no stream, or for `who`. Errors: those of Admit.
  absl::StatusOr<MemoryClaim> AdmitWorker(uint64_t quota_bytes, absl::string_view who = "a worker")
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Sets the container's limit. True if it changed.
  bool SetLimit(uint64_t limit_bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return std::exchange(limit_bytes_, limit_bytes) != limit_bytes;
  }
  // The limit was lowered below what is promised, not counting returning memory.
  bool overdrawn() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return Promised() - returning_bytes_ > Usable();
  }
  // "supervisor 48MiB + arenas 1GiB + workers 4GiB + one replacement 512MiB = 5.5GiB".
  std::string Arithmetic() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return Sum();
  }
  v1::MemoryBudget Snapshot() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class MemoryClaim;
  explicit MemoryBudget(const Config& config) : config_(config), limit_bytes_(config.limit_bytes) {}

  void GiveBack(const MemoryClaim& claim) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetReturning(const MemoryClaim& claim, bool returning) ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t Usable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t Promised() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t Free() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return FreeAfter(0); }
  // What will be free once `given_back_bytes` have come back.
  uint64_t FreeAfter(uint64_t given_back_bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Sum() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Refusal(const std::string& demand) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  MemoryClaim Promise(uint64_t arena_bytes, uint64_t quota_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Config config_;
  mutable absl::Mutex mutex_;
  uint64_t limit_bytes_ ABSL_GUARDED_BY(mutex_);
  uint64_t arena_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t quota_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t returning_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // part of the two above
};

}  // namespace bulkhead

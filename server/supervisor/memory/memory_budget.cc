#include "server/supervisor/memory/memory_budget.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/os/monotonic_wait.h"

namespace bulkhead {
namespace {

// One over the part of the free memory that further slots of one stream may take.
constexpr uint64_t kShareForMoreSlots = 8;

// Saturates, because the inputs may have any value.
uint64_t SaturatedSum(uint64_t a, uint64_t b) {
  const uint64_t sum = a + b;
  return sum < a ? std::numeric_limits<uint64_t>::max() : sum;
}

uint64_t SaturatedProduct(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<uint64_t>::max() : product;
}

uint64_t ArenaBytes(const MemoryBudget::Demand& demand) {
  return SaturatedProduct(demand.slot_count, demand.slot_bytes);
}

// The part of it not promised yet.
uint64_t NewArenaBytes(const MemoryBudget::Demand& demand) {
  const uint64_t bytes = ArenaBytes(demand);
  return bytes - std::min(bytes, demand.inherited_bytes);
}

// The slots of `demand` and of its further ones those for which there is room, if `free_bytes` are
// free beside the slots and all workers.
uint32_t SlotsWithin(const MemoryBudget::Demand& demand, uint64_t free_bytes) {
  if (demand.more_slots == 0 || demand.slot_bytes == 0) return demand.slot_count;
  const uint64_t held = std::max(ArenaBytes(demand), demand.inherited_bytes);
  const uint64_t fitting = SaturatedSum(held, free_bytes / kShareForMoreSlots) / demand.slot_bytes;
  const uint64_t most = uint64_t{demand.slot_count} + demand.more_slots;
  return static_cast<uint32_t>(std::clamp<uint64_t>(fitting, demand.slot_count, most));
}

// With `workers` workers.
uint64_t DemandedBytes(const MemoryBudget::Demand& demand, uint32_t workers) {
  return SaturatedSum(NewArenaBytes(demand), SaturatedProduct(workers, demand.worker_quota_bytes));
}

}  // namespace

MemoryClaim& MemoryClaim::operator=(MemoryClaim&& other) noexcept {
  if (this == &other) return *this;
  Release();
  budget_ = std::move(other.budget_);
  arena_bytes_ = other.arena_bytes_;
  quota_bytes_ = other.quota_bytes_;
  returning_ = other.returning_;
  return *this;
}

void MemoryClaim::Release() {
  if (budget_ == nullptr) return;
  budget_->GiveBack(*this);
  budget_.reset();
}

void MemoryClaim::SetReturning(bool returning) {
  if (budget_ == nullptr || returning_ == returning) return;
  returning_ = returning;
  budget_->SetReturning(*this, returning);
}

MemoryClaim MemoryClaim::Split(uint64_t arena_bytes, uint64_t quota_bytes) {
  if (budget_ == nullptr) return MemoryClaim();
  MemoryClaim part(budget_, std::min(arena_bytes, arena_bytes_),
                   std::min(quota_bytes, quota_bytes_));
  arena_bytes_ -= part.arena_bytes_;
  quota_bytes_ -= part.quota_bytes_;
  if (returning_) budget_->SetReturning(part, false);
  return part;
}

void MemoryClaim::Merge(MemoryClaim other) {
  if (other.budget_ == nullptr) return;
  if (budget_ == nullptr) {
    *this = std::move(other);
    return;
  }
  MarkStaying();
  other.MarkStaying();
  arena_bytes_ += other.arena_bytes_;
  quota_bytes_ += other.quota_bytes_;
  other.budget_.reset();
}

absl::StatusOr<std::shared_ptr<MemoryBudget>> MemoryBudget::Create(const Config& config) {
  std::shared_ptr<MemoryBudget> budget(new MemoryBudget(config));
  BULKHEAD_RETURN_IF_ERROR(budget->AdmitWorker(config.replacement_bytes).status());
  return budget;
}

absl::StatusOr<MemoryBudget::Admission> MemoryBudget::Admit(const Demand& demand) {
  absl::MutexLock lock(&mutex_);
  const uint64_t arena_bytes = NewArenaBytes(demand);
  const uint64_t free = Free();
  const uint64_t quota = demand.worker_quota_bytes;
  const uint64_t for_workers = free >= arena_bytes ? free - arena_bytes : 0;
  const auto fitting =
      quota == 0 ? demand.workers
                 : static_cast<uint32_t>(std::min<uint64_t>(demand.workers, for_workers / quota));
  if (free < arena_bytes || (demand.workers > 0 && fitting == 0)) {
    std::string asked =
        absl::StrCat(demand.asker, " takes an arena of ", demand.slot_count, " slots × ",
                     FormatBytes(demand.slot_bytes), " = ", FormatBytes(ArenaBytes(demand)));
    if (demand.inherited_bytes > 0) {
      absl::StrAppend(&asked, ", of which it inherits ", FormatBytes(demand.inherited_bytes),
                      " from its predecessor");
    }
    if (demand.workers > 0) absl::StrAppend(&asked, " and a worker of ", FormatBytes(quota));
    return Refusal(asked);
  }
  Demand all = demand;
  if (fitting == demand.workers) {
    all.slot_count = SlotsWithin(demand, for_workers - quota * fitting);
  }
  Admission admission;
  admission.arena = Promise(NewArenaBytes(all), 0);
  admission.slot_count = all.slot_count;
  admission.workers = Promise(0, quota * fitting);
  admission.worker_count = fitting;
  return admission;
}

bool MemoryBudget::FitsWholly(const Demand& demand) const {
  absl::MutexLock lock(&mutex_);
  return DemandedBytes(demand, demand.workers) <= Free();
}

bool MemoryBudget::WillFitWholly(const Demand& demand) const {
  absl::MutexLock lock(&mutex_);
  return DemandedBytes(demand, demand.workers) <= FreeAfter(returning_bytes_);
}

bool MemoryBudget::CouldAdmit(const Demand& demand, uint64_t more_bytes) const {
  absl::MutexLock lock(&mutex_);
  return DemandedBytes(demand, std::min(demand.workers, 1u)) <=
         FreeAfter(returning_bytes_ + more_bytes);
}

void MemoryBudget::AwaitRoom(const Demand& demand, absl::Duration patience) const {
  absl::MutexLock lock(&mutex_);
  const auto decided = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return returning_bytes_ == 0 || DemandedBytes(demand, demand.workers) <= Free();
  };
  AwaitFor(mutex_, decided, patience);
}

absl::StatusOr<MemoryClaim> MemoryBudget::AdmitWorker(uint64_t quota_bytes, absl::string_view who) {
  absl::MutexLock lock(&mutex_);
  if (Free() < quota_bytes) {
    return Refusal(absl::StrCat(who, " takes ", FormatBytes(quota_bytes)));
  }
  return Promise(0, quota_bytes);
}

absl::Status MemoryBudget::Refusal(const std::string& demand) const {
  const bool by_limit = UsableOf(limit_bytes_) < config_.budget_bytes;
  const std::string bound =
      by_limit ? absl::StrCat("90% of the memory limit of ", FormatBytes(limit_bytes_),
                              ", which was lowered, are ", FormatBytes(Usable()))
               : absl::StrCat("the budget is ", FormatBytes(Usable()));
  return MakeError(
      absl::StatusCode::kResourceExhausted, reason::kBudgetExceeded,
      absl::StrCat("the memory budget is exhausted: ", demand, ", but ", bound,
                   " and the promised memory is ", Sum(), ", which leaves ", FormatBytes(Free()),
                   "; close other streams, use a smaller batch.size or --worker-quota, or use a "
                   "larger --memory-budget",
                   by_limit ? " and memory limit" : ""));
}

MemoryClaim MemoryBudget::Promise(uint64_t arena_bytes, uint64_t quota_bytes) {
  arena_bytes_ += arena_bytes;
  quota_bytes_ += quota_bytes;
  return MemoryClaim(shared_from_this(), arena_bytes, quota_bytes);
}

void MemoryBudget::GiveBack(const MemoryClaim& claim) {
  absl::MutexLock lock(&mutex_);
  arena_bytes_ -= claim.arena_bytes_;
  quota_bytes_ -= claim.quota_bytes_;
  if (claim.returning_) returning_bytes_ -= claim.arena_bytes_ + claim.quota_bytes_;
}

void MemoryBudget::SetReturning(const MemoryClaim& claim, bool returning) {
  absl::MutexLock lock(&mutex_);
  const uint64_t bytes = claim.arena_bytes_ + claim.quota_bytes_;
  returning_bytes_ = returning ? returning_bytes_ + bytes : returning_bytes_ - bytes;
}

uint64_t MemoryBudget::Usable() const {
  return std::min(config_.budget_bytes, UsableOf(limit_bytes_));
}

uint64_t MemoryBudget::Promised() const {
  return SaturatedSum(config_.supervisor_bytes + config_.replacement_bytes,
                      SaturatedSum(arena_bytes_, quota_bytes_));
}

uint64_t MemoryBudget::FreeAfter(uint64_t given_back_bytes) const {
  const uint64_t usable = Usable();
  const uint64_t promised = Promised() - given_back_bytes;
  return usable > promised ? usable - promised : 0;
}

std::string MemoryBudget::Sum() const {
  return absl::StrCat("supervisor ", FormatBytes(config_.supervisor_bytes), " + arenas ",
                      FormatBytes(arena_bytes_), " + workers ", FormatBytes(quota_bytes_),
                      " + one replacement ", FormatBytes(config_.replacement_bytes), " = ",
                      FormatBytes(Promised()));
}

v1::MemoryBudget MemoryBudget::Snapshot() const {
  absl::MutexLock lock(&mutex_);
  v1::MemoryBudget snapshot;
  snapshot.set_budget_bytes(config_.budget_bytes);
  snapshot.set_limit_bytes(limit_bytes_);
  snapshot.set_supervisor_bytes(config_.supervisor_bytes);
  snapshot.set_arena_bytes(arena_bytes_);
  snapshot.set_quota_bytes(quota_bytes_);
  snapshot.set_replacement_bytes(config_.replacement_bytes);
  return snapshot;
}

}  // namespace bulkhead

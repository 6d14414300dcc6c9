#include "server/spec/memory_plan.h"

#include "absl/strings/str_cat.h"
#include "server/spec/checked_math.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kMaxArenaBytes = uint64_t{1} << 46;

}  // namespace

absl::StatusOr<v1::MemoryPlan> PlanMemory(const PipelineSignature& signature,
                                          const MemoryPlanOptions& options) {
  const CheckedCount slot_bytes =
      CheckedCount(signature.schema.batch_bytes()).AlignedUp(kPageBytes);
  const CheckedCount arena_bytes = slot_bytes * CheckedCount(options.slot_count);
  if (!arena_bytes.FitsIn(kMaxArenaBytes)) {
    return SpecError("batch.size", "the arena would be too large: ", options.slot_count,
                     " slots x ", signature.schema.batch_bytes(), " bytes a batch (in pages of ",
                     kPageBytes, "); the limit is ", kMaxArenaBytes, " bytes");
  }
  v1::MemoryPlan plan;
  plan.set_slot_bytes(slot_bytes.value());
  plan.set_slot_count(options.slot_count);
  plan.set_arena_bytes(arena_bytes.value());
  plan.set_sample_bytes(signature.sample_bytes);
  plan.set_workers(options.workers);
  plan.set_threads_per_worker(options.threads_per_worker);
  plan.set_worker_quota_bytes(options.worker_quota_bytes);
  return plan;
}

}  // namespace bulkhead

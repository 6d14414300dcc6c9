#ifndef BULKHEAD_SERVER_SPEC_MEMORY_PLAN_H_
#define BULKHEAD_SERVER_SPEC_MEMORY_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/spec/signature.h"

namespace bulkhead {

// What the service decides about a stream's memory; the rest follows from the spec.
struct MemoryPlanOptions {
  uint32_t workers = 1;
  uint32_t threads_per_worker = 1;
  uint64_t worker_quota_bytes = 0;
  // Slots of the arena: four to work with, and one for redoing the head.
  uint32_t slot_count = 5;
};

// What one stream with `signature` takes. slot_bytes is the batch rounded up to whole pages of 4096
// bytes, because a slot is mapped, faulted and given back by the page. Errors: INVALID_ARGUMENT
// (SPEC_INVALID, metadata `path`) when the arena would pass 2^46 bytes, which no address space here
// holds.
absl::StatusOr<v1::MemoryPlan> PlanMemory(const PipelineSignature& signature,
                                          const MemoryPlanOptions& options);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_MEMORY_PLAN_H_

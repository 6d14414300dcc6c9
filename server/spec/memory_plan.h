#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/spec/signature.h"

namespace bulkhead {

// The service's settings for a stream's memory; the rest follows from the spec.
struct MemoryPlanOptions {
  uint32_t workers = 1;
  uint32_t threads_per_worker = 1;
  uint64_t worker_quota_bytes = 0;
  // Slots of the arena: four to work with, and one for redoing the head.
  uint32_t slot_count = 5;
};

// The memory of one stream with `signature`. slot_bytes is the batch rounded up to whole pages of
// 4096 bytes, because slots are mapped, faulted and given back by pages. Errors: INVALID_ARGUMENT
// (SPEC_INVALID, metadata `path`) if the arena would exceed 2^46 bytes, which no address space here
// holds.
absl::StatusOr<v1::MemoryPlan> PlanMemory(const PipelineSignature& signature,
                                          const MemoryPlanOptions& options);

}  // namespace bulkhead

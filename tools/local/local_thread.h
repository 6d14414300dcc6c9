#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/pipeline/pipeline.h"
#include "tools/local/local_pipeline.h"
#include "tools/local/parts_ahead.h"

namespace bulkhead::tools {

// What one thread needs to produce samples of a LocalPipeline, whose data may be in object stores.
class LocalThread {
 public:
  // `local` must outlive this. `step`: each Produce makes this many samples, or those that are left
  // of the epoch.
  explicit LocalThread(const LocalPipeline& local, uint64_t step = 1);
  LocalThread(const LocalThread&) = delete;
  LocalThread& operator=(const LocalThread&) = delete;

  PipelineContext& context() { return *context_; }

  // The samples of these positions, counted through all epochs, are produced next, in their order:
  // fetches them ahead. Others are fetched when they are produced.
  void WillProduce(uint64_t first, uint64_t end);

  // Produces the sample at `position` of `epoch` alone, into one destination for each tensor,
  // without a substitute for a bad one. Blocks for the network. Errors: those of
  // Pipeline::Produce, and of the store.
  absl::Status ProduceSample(uint64_t epoch, uint64_t position,
                             absl::Span<std::byte* const> destinations);

  // Produces a batch: the samples at `first_position`, if not a multiple of `step`, then slower
  // from a store, and the `count` − 1 positions after it, which all belong to `epoch`, as sample 0,
  // 1, … of a batch at `batch`, and what batch stages make of it: schema().batch_bytes() for
  // schema().batch_size() of them. Blocks for the network. Errors: those of ProduceLease and
  // FinishBatch, and of the store.
  absl::Status Produce(uint64_t epoch, uint64_t first_position, uint32_t count, std::byte* batch);

 private:
  // The number of the step with a position, through all epochs.
  uint64_t StepOf(uint64_t epoch, uint64_t position) const;
  void AddParts(uint64_t number, std::vector<ObjectPart>& parts) const;
  // Calls `produce` once what the step reads is on this host.
  absl::Status WithParts(uint64_t epoch, uint64_t position,
                         absl::FunctionRef<absl::Status()> produce);

  const LocalPipeline& local_;
  const uint64_t step_;
  const uint64_t steps_per_epoch_;
  const std::unique_ptr<PipelineContext> context_;
  std::unique_ptr<PipelineContext> survey_;  // what samples will read is looked up with it
  std::optional<PartsAhead> ahead_;          // absent: all are files
};

}  // namespace bulkhead::tools

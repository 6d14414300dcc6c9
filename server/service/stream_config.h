#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/base/quarantine_set.h"
#include "server/sampler/batch_plan.h"
#include "server/service/preparation.h"
#include "server/supervisor/leases/stream.h"
#include "server/supervisor/pool/pipeline_config.h"

namespace bulkhead {

// INVALID_ARGUMENT if a stream's name has more than 256 bytes: status and metrics repeat it.
absl::Status CheckStreamName(const std::string& name);

// Checks an Open against the prepared pipeline, whose `code` is not known yet: name, rank, world
// size, cursor. Returns the plan of the stream's batches. Errors: INVALID_ARGUMENT
// (PROTOCOL_VIOLATION); FAILED_PRECONDITION (CURSOR_MISMATCH, with what differs; NO_SAMPLES if an
// epoch has no batch).
absl::StatusOr<BatchPlan> PlanBatches(const v1::Open& open, const PreparedPipeline& prepared);

// The answer to Open.
v1::Opened MakeOpened(const v1::Open& open, const PreparedPipeline& prepared, const BatchPlan& plan,
                      const QuarantineSet& quarantined, const std::string& boot_id);

// The supervisor's configs of the pipeline and of the stream; the caller adds the service's limits,
// arena, observer, peer and quarantine. `owner`: the caller's name; streams of different owners
// share no batches. `can_share`: the service lets streams share batches.
PipelineConfig MakePipelineConfig(const PreparedPipeline& prepared);

// An arena with more slots than the client needs is no larger.
inline constexpr uint64_t kMostBytesForMoreSlots = uint64_t{128} << 20;

// Slots beyond those of the plan that all workers of the pipeline can fill at a time: a small batch
// gives one of them work. None of a stream whose batches others make.
uint32_t MoreSlots(const v1::Open& open, const PreparedPipeline& prepared,
                   const PipelineConfig& pipeline);
// Lets the pipeline's workers read what its client brought under `ids`. It shares workers and
// cached results only with streams that name the same.
void AddDatasets(const google::protobuf::RepeatedPtrField<std::string>& ids,
                 std::vector<std::shared_ptr<const DatasetMemory>> datasets,
                 PipelineConfig& pipeline);
StreamConfig MakeStreamConfig(const v1::Open& open, const PreparedPipeline& prepared,
                              const BatchPlan& plan, const std::string& owner = "",
                              bool can_share = true);

}  // namespace bulkhead

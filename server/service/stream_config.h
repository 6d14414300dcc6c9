#ifndef BULKHEAD_SERVER_SERVICE_STREAM_CONFIG_H_
#define BULKHEAD_SERVER_SERVICE_STREAM_CONFIG_H_

#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/sampler/batch_plan.h"
#include "server/service/preparation.h"
#include "server/service/quarantine_store.h"
#include "server/supervisor/pipeline_config.h"
#include "server/supervisor/stream.h"

namespace bulkhead {

// CURSOR_MISMATCH (FAILED_PRECONDITION) when a cursor names more code than a pipeline may load, or
// files by what is no IsCodeName: nothing is read for such a one.
absl::Status CheckCodeNames(const v1::Cursor& cursor);

// Checks an Open against the prepared pipeline, whose `code` is not known yet: name, rank, world
// size, cursor. Returns how the
// stream's batches are cut. Errors: INVALID_ARGUMENT (PROTOCOL_VIOLATION), FAILED_PRECONDITION
// (CURSOR_MISMATCH, saying what differs; NO_SAMPLES when an epoch has no batch at all).
absl::StatusOr<BatchPlan> PlanBatches(const v1::Open& open, const PreparedPipeline& prepared);

// What is in force when the stream opens: what the cursor brings along, and what the service knows.
// RESOURCE_EXHAUSTED (QUARANTINE_FULL).
absl::StatusOr<QuarantineSet> QuarantineAtOpen(const v1::Open& open,
                                               const PreparedPipeline& prepared,
                                               const QuarantineStore& store);

// The answer to Open.
v1::Opened MakeOpened(const v1::Open& open, const PreparedPipeline& prepared, const BatchPlan& plan,
                      const QuarantineSet& quarantined, const std::string& boot_id);

// What the supervisor is told about the stream's pipeline, and about the stream itself (arena,
// observer, peer and quarantine are the caller's to add).
PipelineConfig MakePipelineConfig(const PreparedPipeline& prepared);
StreamConfig MakeStreamConfig(const v1::Open& open, const PreparedPipeline& prepared,
                              const BatchPlan& plan);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_STREAM_CONFIG_H_

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/base/quarantine_set.h"
#include "server/service/preparation.h"

// What a client's cursor says, and whether a stream can go on from it. Each error is
// CURSOR_MISMATCH (FAILED_PRECONDITION), with what differs, unless it says otherwise.
namespace bulkhead {

// A spec whose batches are delivered as they are completed.
bool IsUnordered(const v1::PipelineSpec& spec);

// An error if a cursor names more files than a pipeline may load, or a name that is not IsCodeName.
// Such files are never read.
absl::Status CheckCodeNames(const v1::Cursor& cursor);

// Checks an Open's cursor against the prepared pipeline, whose `code` is not known yet: version,
// data, order, bytes, and numbers that make no sense.
absl::Status CheckCursor(const v1::Open& open, const PreparedPipeline& prepared);

// Checks an unordered stream's batches delivered out of turn against those that are left.
absl::Status CheckCompleted(const v1::Open& open, const PreparedPipeline& prepared,
                            uint64_t world_size, uint64_t batches_left);

// The records that a cursor leaves out. RESOURCE_EXHAUSTED (QUARANTINE_FULL).
absl::StatusOr<QuarantineSet> QuarantineOf(const v1::Cursor& cursor);

// The code to name in the stream's cursors before its first batch, sorted by name: what the workers
// have loaded, plus unchanged files that an earlier stream loaded later. The workers may not have
// loaded these yet, but the batches already trained on were made with them.
std::vector<v1::CodeFile> CodeOf(const v1::Cursor& cursor, const PreparedPipeline& prepared);

// The same, with the digests that the workers' files must have: an edit after the check of the disk
// counts as an edit during the stream.
std::vector<v1::CodeFile> CodeToWatch(const v1::Open& open, const PreparedPipeline& prepared);

}  // namespace bulkhead

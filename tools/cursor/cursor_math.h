#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "bulkhead/v1/types.pb.h"

namespace bulkhead::tools {

// What a cursor says, for people: several lines, each with its newline.
std::string DescribeCursor(const v1::Cursor& cursor);

// How far to go: batches of every rank.
struct CursorStep {
  uint64_t batches = 0;
  uint64_t batch_size = 1;
  uint64_t world_size = 1;
  v1::LastBatch last = v1::LAST_BATCH_PARTIAL;
};
// The cursor behind that many batches, over the ends of epochs. INVALID_ARGUMENT when an epoch
// holds no such batch, or a number is 0 or too large.
absl::StatusOr<v1::Cursor> AdvanceCursor(const v1::Cursor& cursor, const CursorStep& step);

// What differs from `a` to `b`, a sentence each; empty when they are equal.
std::vector<std::string> DiffCursors(const v1::Cursor& a, const v1::Cursor& b);

}  // namespace bulkhead::tools

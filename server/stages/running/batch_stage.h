#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/image.h"
#include "server/spec/signature.h"
#include "server/stages/running/sample_stage.h"
#include "server/stages/running/user_code.h"

namespace bulkhead {

// A batch whose samples are all written, in its memory.
struct BatchRows {
  // Where the rows of each tensor of the schema begin; row i is i × sample_bytes further on.
  absl::Span<std::byte* const> tensors;
  uint64_t rows = 0;
  // The position is that of the batch's first row.
  SampleKey key;
  ScratchBuffer& scratch;
};

// One running stage of `batch_stages`: changes a batch in place. Immutable; thread-safe.
class BatchStage {
 public:
  explicit BatchStage(StagePlace place) : place_(std::move(place)) {}
  virtual ~BatchStage() = default;
  BatchStage(const BatchStage&) = delete;
  BatchStage& operator=(const BatchStage&) = delete;

  // Errors carry the stage's name.
  virtual absl::Status RunOn(const BatchRows& batch) const = 0;
  // As SampleStage::Load.
  virtual absl::Status Load(const UserCode&) { return absl::OkStatus(); }

  const StagePlace& place() const { return place_; }

 private:
  StagePlace place_;
};

}  // namespace bulkhead

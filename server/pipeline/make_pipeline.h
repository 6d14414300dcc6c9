#ifndef BULKHEAD_SERVER_PIPELINE_MAKE_PIPELINE_H_
#define BULKHEAD_SERVER_PIPELINE_MAKE_PIPELINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/pipeline/pipeline.h"
#include "server/source/source.h"

namespace bulkhead {

struct PipelineOptions {
  // Off, every stage runs by itself: slower, the same bytes and verdicts. For tests.
  bool fuse = true;
};

// A pipeline over an open `source` (a fake one in tests): source, features, stages and outputs of
// `spec`, which is normalized, count. Errors: those of InferSignature; INTERNAL when the source's
// features are not those of the spec.
absl::StatusOr<std::unique_ptr<Pipeline>> MakePipeline(std::unique_ptr<Source> source,
                                                       v1::PipelineSpec spec,
                                                       const PipelineOptions& options = {});

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_MAKE_PIPELINE_H_

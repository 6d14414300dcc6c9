#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/local/local_pipeline.h"

namespace bulkhead::tools {

// What every stage made of a sample, or of a batch, in one run: the stages by the names that people
// know, in their order, with a digest of what they gave. An error takes the place of what would
// have come after it.
struct StageTrace {
  std::string record;  // "train.tfrecord@1234"; of a batch "positions 0 to 63"
  std::vector<std::pair<std::string, std::string>> stages;
  std::string error;
};

// By first position; batches apart from samples.
struct PurityTrace {
  std::map<uint64_t, StageTrace> samples;
  std::map<uint64_t, StageTrace> batches;
};

// Produces the first `samples` positions of epoch 0, whole batches where there are batch stages,
// from the first to the last, or, `reversed`, from the last to the first. Errors: those that would
// end a stream whatever its policy.
absl::StatusOr<PurityTrace> TracePass(const LocalPipeline& local, uint64_t samples, bool reversed);

// As text, for the way from one process to another, and back. INTERNAL for another text.
std::string TraceToText(const PurityTrace& trace);
absl::StatusOr<PurityTrace> TraceFromText(absl::string_view text);

}  // namespace bulkhead::tools

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/image/jpeg/decode_counts.h"
#include "tools/explain/stage_sizes.h"
#include "tools/local/local_pipeline.h"

namespace bulkhead::tools {

// What one stage, or reading, or writing into the batch, took of a sample.
struct StageTime {
  std::string name;    // "stages[0] decode_image", "source", "batch"
  double seconds = 0;  // a sample, on average
};

struct MeasuredStages {
  std::vector<StageTime> stages;  // the source first, writing into the batch last
  double sample_seconds = 0;      // of all together
  uint64_t samples = 0;
  uint64_t samples_per_epoch = 0;
  jpeg::DecodeCounts jpeg;  // of the samples that were measured
  // Of what a cache stage keeps: how many of these samples came from there, and the bytes of one.
  uint64_t kept_found = 0;
  uint64_t kept_sample_bytes = 0;
  // By stage and feature, where a signature cannot say; filled in by who has a StageSizes.
  std::map<std::pair<std::string, std::string>, SeenSize> seen;
};

// As text, for the way from one process to another, and back: what `explain` needs, of `jpeg` the
// crops and the MCUs. INTERNAL for another text.
std::string TextOf(const MeasuredStages& measured);
absl::StatusOr<MeasuredStages> MeasuredStagesFromText(absl::string_view text);

// Produces the first `samples` positions of epoch 0 on the calling thread, `warm_up` others before
// them, and measures where the time goes. With `again` the same samples are produced once before,
// and what is learned of them is kept, as a service does from epoch to epoch. `sizes`, if it is not
// null, is told of the measured samples; that time is not counted. Blocks. Errors: those of
// LocalPipeline::Produce.
absl::StatusOr<MeasuredStages> MeasureStages(const LocalPipeline& local, uint64_t samples,
                                             uint64_t warm_up, bool again,
                                             StageSizes* sizes = nullptr);

}  // namespace bulkhead::tools

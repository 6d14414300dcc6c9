#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/common/json.h"
#include "tools/explain/loader_memory.h"
#include "tools/explain/object_reading.h"
#include "tools/explain/stage_sizes.h"

namespace bulkhead::tools {

// What comes out of the source or a stage.
struct ExplainedFeature {
  std::string name;           // "image"
  std::string what;           // "uint8 [224,224,3]", "encoded bytes", "uint8 [any,any,3]"
  uint64_t sample_bytes = 0;  // 0: differs from sample to sample
  SeenSize seen;              // then, what the measured samples took

  // What a batch of so many takes, by the mean where samples differ; 0: not known.
  uint64_t BatchBytes(uint64_t size) const {
    return size * (sample_bytes > 0 ? sample_bytes : seen.mean_bytes());
  }
};

// One row of the table of stages.
struct ExplainedStage {
  std::string name;  // "stages[1] resize"
  std::vector<ExplainedFeature> gives;
  double seconds = 0;   // a sample
  bool joined = false;  // it is always done in one with the stage above, whose time includes it
};

// A batch of another size.
struct ExplainedBatch {
  uint64_t size = 0;
  uint64_t batch_bytes = 0;
  uint64_t arena_bytes = 0;
  uint64_t client_grpc_bytes = 0;  // ClientBytesOverGrpc
};

// All that `bulkhead explain` says.
struct Explanation {
  std::string spec;  // path
  uint64_t samples_per_epoch = 0;
  uint64_t batch_size = 0;
  uint64_t batch_bytes = 0;
  std::vector<ExplainedStage> stages;  // source first, "batch" last
  uint64_t measured_samples = 0;
  double unfused_seconds = 0;  // a sample, every stage by itself
  double fused_seconds = 0;    // a sample, as workers run it
  // The same from the second epoch on, by seek entries of JPEG images and by what a cache stage
  // keeps; 0: there is neither.
  double again_seconds = 0;
  // Of the images' MCUs, the share whose data is read.
  double mcus_read = 0;
  double mcus_read_by_seek = 0;
  // Bytes that a cache stage keeps of a sample; 0: there is none.
  uint64_t kept_sample_bytes = 0;
  double kept_share = 0;                   // of the measured samples, those that came from there
  std::vector<ExplainedMemory> memory;     // in any order
  uint64_t worker_peak_bytes = 0;          // the most that one was seen to hold with these samples
  uint64_t expected_bytes = 0;             // of the service, if all of them hold as much at a time
  std::string not_expected;                // why neither is known; empty: they are
  std::string refused;                     // why the service refuses the stream; empty: it does not
  uint64_t budget_bytes = 0;               // what the service may promise here
  std::vector<ExplainedReading> readings;  // of data in object stores; the spec's order first
  std::string not_read;                    // why they are not known
  std::vector<ExplainedBatch> batches;
};

std::string ExplanationText(const Explanation& explanation);
JsonObject ExplanationJson(const Explanation& explanation);

}  // namespace bulkhead::tools

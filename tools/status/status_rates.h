#pragma once

#include <string>
#include <vector>

#include "bulkhead/v1/loader.pb.h"

namespace bulkhead::tools {

// What a service did between two looks at its status. Whatever the earlier look does not know, or
// knows more of, as of a service that was restarted, counts from nothing.
struct StatusRates {
  // Of a stream, in the order of the later look.
  struct Stream {
    double samples = 0;            // a second
    double batches = 0;            // a second
    double waits_for_workers = 0;  // share of the time, 0 to 1
  };
  // Of a stage in all workers of its pipeline.
  struct Stage {
    std::string stage;
    double seconds_a_run = 0;
    double share = 0;  // of the time of all stages of the pipeline
  };
  struct Pipeline {
    std::string name;
    double samples = 0;         // a second
    std::vector<Stage> stages;  // that ran, the busiest first
  };

  double seconds = 0;  // between the looks
  double samples = 0;  // delivered a second
  double cpus = 0;     // CPU seconds a second
  std::vector<Stream> streams;
  std::vector<Pipeline> pipelines;
};

// `seconds` passed between the looks; more than 0.
StatusRates RatesBetween(const v1::GetStatusResponse& before, const v1::GetStatusResponse& now,
                         double seconds);

}  // namespace bulkhead::tools

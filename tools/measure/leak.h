#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/loader.h"
#include "tools/common/user_code_options.h"
#include "tools/measure/memory_watch.h"
#include "tools/measure/theil_sen.h"

namespace bulkhead::tools {

struct LeakOptions {
  std::string spec;
  uint64_t samples = 20'000;   // of the leaking run, and of the control
  int rounds = 4;              // in which they take turns
  std::string leak = "1MiB";   // with each that leaks
  uint64_t every = 1;          // of how many samples one leaks
  std::string fault = "leak";  // or leak_mmap; or python, a Python function
  std::string quota = "256MiB";
  Transport transport = Transport::kAuto;
  UserCodeOptions code;  // of the spec's own stages
};

// One of the two runs.
struct LeakRun {
  uint64_t samples = 0;
  std::vector<double> samples_per_second;  // by round
  std::vector<double> gap_seconds;         // between batches, in all rounds
  std::vector<MemoryWatch::Look> looks;    // over its whole life
  uint64_t limit_events = 0;
  uint64_t worker_peak_bytes = 0;
  // After two fifths of the batches. Only those of the leaking run are told.
  SlopeEstimate trainer_slope;         // bytes a batch
  SlopeEstimate trainer_blocks_slope;  // of what malloc gave out in the trainer
  SlopeEstimate supervisor_slope;
};

struct LeakReport {
  LeakRun leaking;
  LeakRun control;
  uint64_t quota_bytes = 0;
  bool digests_equal = false;
  double throughput_ratio = 0;  // median over the rounds
  double gap_p99_ratio = 0;
  uint64_t recycles = 0;
  // Of the replacements that the service remembers: start, bind, warm, reap, by name.
  std::map<std::string, std::vector<double>> recycle_seconds;
  std::map<std::string, uint64_t> recycle_causes;
  // What the service blames: the stage that held most at the replacements, and how much it was on
  // average.
  std::string stage;
  double stage_bytes = 0;
};

// Streams the spec with a stage that leaks from one service of its own, and from another with a
// stage that maps, touches and unmaps as many bytes; each has one worker with one thread and the
// quota. Blocks for a minute or more; `tell` is called with what is being done.
absl::StatusOr<LeakReport> MeasureLeak(const LeakOptions& options,
                                       const std::function<void(const std::string&)>& tell);

}  // namespace bulkhead::tools

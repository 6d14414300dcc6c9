#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "tools/doctor/stage_input.h"

namespace bulkhead::tools {

// Counters of a stage in one worker, since the worker started.
struct StageCounters {
  uint64_t live_bytes = 0;
  double busy_seconds = 0;
  uint64_t runs = 0;
};

// One look at a worker.
struct TrialLook {
  uint64_t samples = 0;  // that the worker has done
  uint64_t memory_bytes = 0;
  std::map<std::string, StageCounters> stages;  // by name, "stages[1] python"
};

// What one worker showed from its start to its end, or to the trial's.
struct WorkerLooks {
  std::vector<TrialLook> looks;
  bool died = false;

  uint64_t samples() const { return looks.empty() ? 0 : looks.back().samples; }
};

struct TrialDeath {
  bool over_quota = false;  // it met its quota; else it crashed, hung, or was killed
  std::string reason;       // "killed by signal 11"
  std::string stage;        // where it was; empty: not known
  std::string sample;       // the record
};

// What a pipeline did in a worker of one thread.
struct Trial {
  std::vector<WorkerLooks> workers;  // one after the other
  std::vector<TrialDeath> deaths;
  bool began = false;  // the service took the spec
  absl::Status error;  // that ended the stream
  uint64_t substituted = 0;
  std::string substituted_why;  // of the first
  uint64_t quota_bytes = 0;
  CapturedValues captured;  // of the first samples, if that was asked for
};

// A pipeline to be tried.
struct TrialSpec {
  v1::PipelineSpec spec;  // normalized
  std::string base_dir;   // where its relative paths start
};

struct TrialOptions {
  std::string target;  // of the service
  uint64_t samples = 0;
  bool capture = false;  // keep what the first samples delivered
};

// Streams the pipeline until its workers have done `samples` samples, started it too often anew, or
// the stream ends, and looks at the worker after each batch. `tell` is called with the samples that
// are done and the worker's memory. Blocks. What befalls the stream is part of the result; an error
// is the service's own.
absl::StatusOr<Trial> RunTrial(
    const TrialSpec& trial, const TrialOptions& options,
    const std::function<void(uint64_t samples, uint64_t memory_bytes)>& tell);

}  // namespace bulkhead::tools

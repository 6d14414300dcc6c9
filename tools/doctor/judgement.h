#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bulkhead/v1/loader.pb.h"
#include "tools/doctor/trial.h"

namespace bulkhead::tools {

// Seconds that a sample took in the first third of a worker's samples, the beginning left out, and
// in the last; 0: not known.
struct TimeTrend {
  double first_seconds = 0;
  double last_seconds = 0;
  bool slows = false;  // certainly: nearly all of the last looks are slower than all of the first
};

// What a stage, or the whole worker, did.
struct JudgedStage {
  std::string name;  // "stages[1] python"
  // By its memory alone; of the worker RETENTION in place of LEAK when no stage leaks.
  v1::VerdictKind memory = v1::VERDICT_KIND_WARM_UP;
  double kept_bytes = 0;   // of a sample, on average
  double bound_bytes = 0;  // with 95 % confidence kept_bytes is right within it; 0 with few looks
  TimeTrend time;
  uint64_t deaths = 0;  // of workers while they were here

  bool Keeps() const {
    return memory == v1::VERDICT_KIND_LEAK || memory == v1::VERDICT_KIND_RETENTION;
  }
  // Something that a trainer would notice.
  bool IsFault() const { return Keeps() || time.slows || deaths > 0; }
  bool IsUncertain() const { return memory == v1::VERDICT_KIND_INCONCLUSIVE; }
  // "leak", "slows", "crashes", "clean": what weighs most.
  std::string Word() const;
};

// A trial as judged: by the worker that did most samples.
struct JudgedTrial {
  std::vector<JudgedStage> stages;  // the source first, then by their numbers, "worker" last
  JudgedStage process;              // its name is empty
  uint64_t samples = 0;             // by which it was judged, of all that were done
};

// Judges a worker that met its quota by all its samples but the first third, others by the later
// half. Growth by stage is found by the service's rules (server/supervisor/verdict/growth_kind.h).
JudgedTrial Judge(const Trial& trial);

}  // namespace bulkhead::tools

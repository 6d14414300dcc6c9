#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "server/arena/flight_recorder.h"
#include "server/supervisor/worker/pipeline_stages.h"

namespace bulkhead {

// Detects that a worker's stages have become slower than at its first samples. Pure; used by one
// thread.
//
// A stage's time is measured in stretches of kStretchRuns samples or more. It is slow if the median
// of the newest stretches is `slowdown` times the fastest of the first ones. The newest are those
// of the last third of the worker's samples, but at most kNewest stretches. So a stage that becomes
// slower with each sample is noticed before it has done half as many samples again as it took to
// become slow, and a few slow samples are no slowness. It is slow only if that is so without the
// time, of both, in which the worker's threads waited for a CPU: that is the machine's load, and a
// successor would be as slow.
class StageTimes {
 public:
  static constexpr uint64_t kStretchRuns = 16;
  // The stretches whose fastest is the stage's time when it was new. Those before them, in which
  // buffers grow and files are opened, are left out.
  static constexpr size_t kFirst = 4;
  static constexpr uint64_t kSkippedRuns = 8;
  static constexpr size_t kNewest = 128;
  // Later stretches, and the newest ones together, last at least this long: another program may
  // slow a worker down for a moment.
  static constexpr absl::Duration kStretch = absl::Milliseconds(20);
  static constexpr absl::Duration kPersistence = absl::Seconds(2);
  // How often, at most, the wait for a CPU is read while no stage seems slow.
  static constexpr absl::Duration kLoadInterval = absl::Seconds(1);
  // At most this share of a stage's time counts as waiting for a CPU: threads that a stage starts
  // also wait for each other.
  static constexpr double kMostLoad = 0.9;
  // Faster stages are ignored.
  static constexpr double kMinSeconds = 0.0002;

  // Takes the current counters of the pipeline's `stages`. `cpu_wait` returns the seconds that the
  // worker's threads have waited for a CPU so far (ReadCpuWaitSeconds); it is called rarely.
  // Returns a sentence with figures if a stage takes at least `slowdown` times as long as at first;
  // else, or with `slowdown` 0, an empty string. Ignores the source and stages that keep samples,
  // which wait for a disk, and those that decode images, whose time is that of a cache, too.
  std::string Note(const FlightSnapshot& snapshot, const PipelineStages& stages, double slowdown,
                   absl::FunctionRef<double()> cpu_wait, int64_t now_ns);

 private:
  struct Stretch {
    uint64_t end_runs = 0;
    double seconds_per_run = 0;
    int64_t began_ns = 0;
  };
  // What the worker's threads had waited for a CPU, and spent in stages (waits included).
  struct Load {
    int64_t at_ns = 0;
    double waited_seconds = 0;
    double busy_seconds = 0;
  };
  struct Stage {
    double busy_seconds = 0;  // at the start of the current stretch
    uint64_t runs = 0;
    int64_t began_ns = 0;
    size_t stretches = 0;
    double first_seconds = 0;  // per sample: the fastest of the first stretches,
    double sum_seconds = 0;    // and all of them together
    Load first_load;           // when they began
    double least_seconds = 0;  // per sample, of all of them without the waits for a CPU
    std::deque<Stretch> newest;
  };
  // The newest stretches' median time per sample, and when they began; 0: too little is known.
  struct Newest {
    double seconds = 0;
    int64_t since_ns = 0;
  };

  // Whether the snapshot ends a stretch of the stage.
  static bool EndsStretch(const Stage& stage, const FlightSnapshot::Stage& now, int64_t now_ns);
  static void Begin(Stage& stage, const FlightSnapshot::Stage& now, int64_t now_ns);
  static Newest NewestOf(const Stage& stage, int64_t now_ns);
  static Load LoadOf(const FlightSnapshot& snapshot, double waited_seconds, int64_t now_ns);
  // The share of the stages' time between two looks in which threads waited for a CPU.
  static double ShareWaited(const Load& then, const Load& now);
  // The newest look before that time.
  const Load& LoadAt(int64_t ns) const;

  std::vector<Stage> stages_;  // as in the snapshots
  std::deque<Load> loads_;     // kLoadInterval apart
};

}  // namespace bulkhead

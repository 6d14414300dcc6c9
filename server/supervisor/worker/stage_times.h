#ifndef BULKHEAD_SERVER_SUPERVISOR_WORKER_STAGE_TIMES_H_
#define BULKHEAD_SERVER_SUPERVISOR_WORKER_STAGE_TIMES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/arena/flight_recorder.h"

namespace bulkhead {

// Detects that a worker's stages have become slower than at its first samples. Pure; used by one
// thread.
//
// A stage's time is measured in stretches of kStretchRuns samples or more. It is slow if the median
// of the newest stretches is `slowdown` times the fastest of the first ones. The newest are those
// of the last third of the worker's samples, but at most kNewest stretches. So a stage that becomes
// slower with each sample is noticed before it has done half as many samples again as it took to
// become slow, and a few slow samples are no slowness.
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
  // Faster stages are ignored.
  static constexpr double kMinSeconds = 0.0002;

  // Takes the current counters. Returns a sentence with figures if a stage takes at least
  // `slowdown` times as long as at first; else, or with `slowdown` 0, an empty string. Ignores
  // cache stages, which wait for a disk.
  std::string Note(const FlightSnapshot& snapshot, double slowdown, int64_t now_ns);

 private:
  struct Stretch {
    uint64_t end_runs = 0;
    double seconds_per_run = 0;
    int64_t began_ns = 0;
  };
  struct Stage {
    double busy_seconds = 0;  // at the start of the current stretch
    uint64_t runs = 0;
    int64_t began_ns = 0;
    size_t stretches = 0;
    double first_seconds = 0;  // per sample: the fastest of the first stretches
    std::deque<Stretch> newest;
  };

  // Whether the snapshot ends a stretch of the stage.
  static bool EndsStretch(const Stage& stage, const FlightSnapshot::Stage& now, int64_t now_ns);
  static void Begin(Stage& stage, const FlightSnapshot::Stage& now, int64_t now_ns);
  // The median time per sample of the newest stretches; 0: too little is known.
  static double NewSeconds(const Stage& stage, int64_t now_ns);

  std::vector<Stage> stages_;  // as in the snapshots
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_WORKER_STAGE_TIMES_H_

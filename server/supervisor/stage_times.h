#ifndef BULKHEAD_SERVER_SUPERVISOR_STAGE_TIMES_H_
#define BULKHEAD_SERVER_SUPERVISOR_STAGE_TIMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/arena/flight_recorder.h"

namespace bulkhead {

// Compares what a worker's stages take per sample with what they took when it was new. Pure; used
// by one thread.
class StageTimes {
 public:
  // Samples of a window, and the time it lasts at least.
  static constexpr uint64_t kWindowRuns = 256;
  static constexpr absl::Duration kWindow = absl::Seconds(5);
  // Shorter stages are not worth the trouble.
  static constexpr double kMinSeconds = 0.0002;

  // Notes the counters. When a window has ended and, in this window and the one before, a stage
  // took at least `slowdown` times as long as in the first: says so, with figures; else empty.
  // Cache stages, which wait for a disk, are never slow.
  std::string Note(const FlightSnapshot& snapshot, double slowdown, int64_t now_ns);

 private:
  struct Counters {
    double busy_seconds = 0;
    uint64_t runs = 0;
  };
  struct Stage {
    Counters begin;            // of the window
    double first_seconds = 0;  // per sample, in the first window
    bool was_slow = false;     // in the last window
  };
  std::vector<Stage> stages_;
  int64_t window_began_ns_ = 0;
  bool begun_ = false;
  bool has_first_ = false;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_STAGE_TIMES_H_

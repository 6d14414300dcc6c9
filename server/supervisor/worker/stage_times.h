#ifndef BULKHEAD_SERVER_SUPERVISOR_WORKER_STAGE_TIMES_H_
#define BULKHEAD_SERVER_SUPERVISOR_WORKER_STAGE_TIMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/arena/flight_recorder.h"

namespace bulkhead {

// Detects that a worker's stages have become slower than when it was new. Pure; used by one thread.
class StageTimes {
 public:
  // The samples, and the minimum duration, of a window.
  static constexpr uint64_t kWindowRuns = 256;
  static constexpr absl::Duration kWindow = absl::Seconds(5);
  // Faster stages are ignored.
  static constexpr double kMinSeconds = 0.0002;

  // Takes the current counters. Returns a sentence with figures if a window has ended and a stage
  // took at least `slowdown` times its first-window time, in this window and the one before; else
  // an empty string. Ignores cache stages, which wait for a disk.
  std::string Note(const FlightSnapshot& snapshot, double slowdown, int64_t now_ns);

 private:
  struct Counters {
    double busy_seconds = 0;
    uint64_t runs = 0;
  };
  struct Stage {
    Counters begin;            // at the start of the window
    double first_seconds = 0;  // per sample, in the first window
    bool was_slow = false;     // in the last window
  };
  std::vector<Stage> stages_;
  int64_t window_began_ns_ = 0;
  bool begun_ = false;
  bool has_first_ = false;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_WORKER_STAGE_TIMES_H_

#include "server/supervisor/worker/stage_times.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"

namespace bulkhead {

std::string StageTimes::Note(const FlightSnapshot& snapshot, double slowdown, int64_t now_ns) {
  if (!begun_) {
    // The first samples of a process are slow: buffers grow, files are opened.
    if (snapshot.samples < kWindowRuns / 8) return "";
    begun_ = true;
    window_began_ns_ = now_ns;
    for (const auto& stage : snapshot.stages) {
      stages_.push_back({{stage.busy_seconds, stage.runs}});
    }
    return "";
  }
  uint64_t runs = 0;
  for (size_t i = 0; i < stages_.size() && i < snapshot.stages.size(); ++i) {
    runs = std::max(runs, snapshot.stages[i].runs - stages_[i].begin.runs);
  }
  if (runs < kWindowRuns || absl::Nanoseconds(now_ns - window_began_ns_) < kWindow) return "";
  std::string slow;
  for (size_t i = 0; i < stages_.size() && i < snapshot.stages.size(); ++i) {
    Stage& stage = stages_[i];
    const auto& now = snapshot.stages[i];
    const uint64_t done = now.runs - stage.begin.runs;
    if (done == 0) continue;
    const double seconds =
        (now.busy_seconds - stage.begin.busy_seconds) / static_cast<double>(done);
    stage.begin = {now.busy_seconds, now.runs};
    if (!has_first_) {
      stage.first_seconds = seconds;
      continue;
    }
    // A cache stage is as slow as its disk, which is not the worker's fault.
    const bool can_be = slowdown > 0 && !absl::EndsWith(now.name, " cache");
    const bool is_slow = can_be && seconds >= kMinSeconds && stage.first_seconds > 0 &&
                         seconds >= slowdown * stage.first_seconds;
    if (is_slow && stage.was_slow && slow.empty()) {
      slow = absl::StrFormat("%s takes %.2f ms a sample, %.1f times as long as when it was new",
                             now.name, seconds * 1e3, seconds / stage.first_seconds);
    }
    stage.was_slow = is_slow;
  }
  has_first_ = true;
  window_began_ns_ = now_ns;
  return slow;
}

}  // namespace bulkhead

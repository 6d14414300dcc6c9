#include "server/supervisor/worker/stage_times.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace bulkhead {
namespace {

// The source and stages that keep samples are as slow as their disk, stages that decode images are
// fast where a cache holds their coefficients, and the time between stages is that of many small
// things: none of it is a worker's fault.
bool IsJudged(const std::string& stage, const PipelineStages& stages) {
  return stage != FlightRecorder::kSourceName && stage != FlightRecorder::kWorkerName &&
         stages.keeping.count(stage) == 0 && stages.decoding.count(stage) == 0;
}

}  // namespace

bool StageTimes::EndsStretch(const Stage& stage, const FlightSnapshot::Stage& now, int64_t now_ns) {
  if (now.runs < stage.runs + kStretchRuns) return false;
  return stage.stretches < kFirst || absl::Nanoseconds(now_ns - stage.began_ns) >= kStretch;
}

void StageTimes::Begin(Stage& stage, const FlightSnapshot::Stage& now, int64_t now_ns) {
  stage.busy_seconds = now.busy_seconds;
  stage.runs = now.runs;
  stage.began_ns = now_ns;
}

StageTimes::Newest StageTimes::NewestOf(const Stage& stage, int64_t now_ns) {
  const uint64_t from = stage.runs - stage.runs / 3;
  std::vector<double> seconds;
  int64_t since_ns = now_ns;
  for (auto stretch = stage.newest.rbegin();
       stretch != stage.newest.rend() && stretch->end_runs > from; ++stretch) {
    seconds.push_back(stretch->seconds_per_run);
    since_ns = stretch->began_ns;
  }
  if (seconds.empty() || absl::Nanoseconds(now_ns - since_ns) < kPersistence) return {};
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return {*middle, since_ns};
}

StageTimes::Load StageTimes::LoadOf(const FlightSnapshot& snapshot, double waited_seconds,
                                    int64_t now_ns) {
  Load load{now_ns, waited_seconds, 0};
  for (const FlightSnapshot::Stage& stage : snapshot.stages)
    load.busy_seconds += stage.busy_seconds;
  return load;
}

double StageTimes::ShareWaited(const Load& then, const Load& now) {
  const double busy = now.busy_seconds - then.busy_seconds;
  if (busy <= 0) return 0;
  return std::clamp((now.waited_seconds - then.waited_seconds) / busy, 0.0, kMostLoad);
}

const StageTimes::Load& StageTimes::LoadAt(int64_t ns) const {
  const auto then = std::find_if(loads_.rbegin(), loads_.rend(),
                                 [&](const Load& load) { return load.at_ns <= ns; });
  return then == loads_.rend() ? loads_.front() : *then;
}

std::string StageTimes::Note(const FlightSnapshot& snapshot, const PipelineStages& stages,
                             double slowdown, absl::FunctionRef<double()> cpu_wait,
                             int64_t now_ns) {
  std::string slow;
  if (loads_.empty() || absl::Nanoseconds(now_ns - loads_.back().at_ns) >= kLoadInterval) {
    loads_.push_back(LoadOf(snapshot, cpu_wait(), now_ns));
    if (loads_.size() > kNewest) loads_.pop_front();
  }
  // A worker that is being bound has no stages yet.
  stages_.resize(std::max(stages_.size(), snapshot.stages.size()));
  for (size_t i = 0; i < snapshot.stages.size(); ++i) {
    Stage& stage = stages_[i];
    const FlightSnapshot::Stage& now = snapshot.stages[i];
    if (stage.runs < kSkippedRuns) {
      Begin(stage, now, now_ns);
      if (now.runs >= kSkippedRuns) stage.first_load = LoadOf(snapshot, cpu_wait(), now_ns);
      continue;
    }
    if (!EndsStretch(stage, now, now_ns)) continue;
    const double seconds =
        (now.busy_seconds - stage.busy_seconds) / static_cast<double>(now.runs - stage.runs);
    const bool is_first = stage.stretches++ < kFirst;
    if (is_first) {
      if (stage.stretches == 1 || seconds < stage.first_seconds) stage.first_seconds = seconds;
      stage.sum_seconds += seconds;
    }
    if (stage.stretches == kFirst) {
      const double load = ShareWaited(stage.first_load, LoadOf(snapshot, cpu_wait(), now_ns));
      stage.least_seconds = std::min(stage.first_seconds, stage.sum_seconds / kFirst * (1 - load));
    }
    stage.newest.push_back({now.runs, seconds, stage.began_ns});
    if (stage.newest.size() > kNewest) stage.newest.pop_front();
    Begin(stage, now, now_ns);
    if (is_first || slowdown <= 0 || !slow.empty()) continue;
    if (!IsJudged(now.name, stages)) continue;
    const Newest newest = NewestOf(stage, now_ns);
    const double too_long = std::max(kMinSeconds, slowdown * stage.first_seconds);
    if (stage.first_seconds <= 0 || newest.seconds < too_long) continue;
    const double load = ShareWaited(LoadAt(newest.since_ns), LoadOf(snapshot, cpu_wait(), now_ns));
    const double new_seconds = newest.seconds * (1 - load);
    if (new_seconds < std::max(kMinSeconds, slowdown * stage.least_seconds)) continue;
    slow = absl::StrFormat(
        "%s takes %.2f ms a sample after %d, %.1f times as long as in its first samples", now.name,
        new_seconds * 1e3, now.runs, new_seconds / stage.least_seconds);
  }
  return slow;
}

}  // namespace bulkhead

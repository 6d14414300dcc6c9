#include "tools/doctor/judgement.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "server/supervisor/verdict/growth_curve.h"
#include "server/supervisor/verdict/growth_kind.h"

namespace bulkhead::tools {
namespace {

// A stage slows down that takes so many times as long, and so much longer.
constexpr double kSlowFactor = 1.5;
constexpr double kSlowLeastSeconds = 20e-6;
// Samples at a worker's start that take longer: imports, caches, first pages.
constexpr uint64_t kStartShare = 10;  // one of so many
constexpr size_t kLeastTimes = 4;     // in each part
// A stage may be slow before that share is over. Then its earliest looks, which are few, show it.
constexpr double kSlowFactorOfEarliest = 2;

uint64_t JudgedFrom(const WorkerLooks& worker) {
  return worker.died ? worker.samples() / 3 : worker.samples() / 2;
}

// The value below which a share of the values lie.
double At(std::vector<double> values, double share) {
  const auto rank = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + rank, values.end());
  return values[static_cast<size_t>(rank)];
}

// Slow are `last` times that are `factor` times as long as the `first`, nearly all of them.
TimeTrend Compare(const std::vector<double>& first, const std::vector<double>& last,
                  double factor) {
  TimeTrend times;
  if (first.size() < kLeastTimes || last.size() < kLeastTimes) return times;
  times.first_seconds = At(first, 0.5);
  times.last_seconds = At(last, 0.5);
  times.slows = times.last_seconds >= factor * times.first_seconds &&
                times.last_seconds >= times.first_seconds + kSlowLeastSeconds &&
                At(last, 0.1) > At(first, 0.9);
  return times;
}

// Times of a sample between looks, of one stage or, with an empty name, of all together.
TimeTrend TimesOf(const WorkerLooks& worker, const std::string& stage) {
  const uint64_t total = worker.samples();
  std::vector<double> earliest, first, last;
  StageCounters before;
  size_t looks = 0;
  for (const TrialLook& look : worker.looks) {
    StageCounters now;
    if (stage.empty()) {
      for (const auto& [name, counters] : look.stages) now.busy_seconds += counters.busy_seconds;
      now.runs = look.samples;
    } else if (const auto found = look.stages.find(stage); found != look.stages.end()) {
      now = found->second;
    }
    if (now.runs <= before.runs) continue;
    const double seconds =
        (now.busy_seconds - before.busy_seconds) / static_cast<double>(now.runs - before.runs);
    before = now;
    if (looks++ == 0) continue;
    if (looks > kLeastTimes && earliest.size() < 2 * kLeastTimes) earliest.push_back(seconds);
    if (look.samples < total / kStartShare) continue;
    if (look.samples < total / kStartShare + total / 3) first.push_back(seconds);
    if (look.samples >= total - total / 3) last.push_back(seconds);
  }
  const TimeTrend times = Compare(first, last, kSlowFactor);
  const TimeTrend since_start = Compare(earliest, last, kSlowFactorOfEarliest);
  return !times.slows && since_start.slows ? since_start : times;
}

JudgedStage JudgeOne(std::string name, const GrowthCurve& curve, uint64_t from, TimeTrend times) {
  const GrowthKind growth = JudgeCurve(curve, from);
  JudgedStage judged;
  judged.name = std::move(name);
  judged.memory = growth.kind;
  judged.kept_bytes = growth.trend.per_sample;
  judged.bound_bytes = growth.trend.bound;
  judged.time = times;
  return judged;
}

// The order of the samples' way: source, stages, batch stages, the worker itself.
int Rank(const std::string& name) {
  if (name == "source") return 0;
  if (absl::StartsWith(name, "source.")) return 1;
  if (absl::StartsWith(name, "stages[")) return 2;
  if (absl::StartsWith(name, "batch_stages[")) return 3;
  return 4;
}

bool IsBefore(const std::string& a, const std::string& b) {
  if (Rank(a) != Rank(b)) return Rank(a) < Rank(b);
  const auto number = [](const std::string& name) { return name.substr(0, name.find(']')); };
  const std::string one = number(a), other = number(b);
  return one.size() != other.size() ? one.size() < other.size() : a < b;
}

}  // namespace

std::string JudgedStage::Word() const {
  if (deaths > 0) return "crashes";
  if (time.slows && !Keeps()) return "slows";
  const std::string name = v1::VerdictKind_Name(memory).substr(sizeof("VERDICT_KIND_") - 1);
  return absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"_", " "}});
}

JudgedTrial Judge(const Trial& trial) {
  JudgedTrial judged;
  std::map<std::string, uint64_t> deaths;
  for (const TrialDeath& death : trial.deaths) {
    if (!death.over_quota) ++deaths[death.stage];
  }
  const auto most = std::ranges::max_element(trial.workers, {}, &WorkerLooks::samples);
  const WorkerLooks none;
  const WorkerLooks& worker = most == trial.workers.end() ? none : *most;
  const uint64_t from = JudgedFrom(worker);
  std::map<std::string, GrowthCurve> curves;
  GrowthCurve process;
  for (const TrialLook& look : worker.looks) {
    process.Note(look.samples, static_cast<int64_t>(look.memory_bytes));
    for (const auto& [name, counters] : look.stages) {
      curves[name].Note(look.samples, static_cast<int64_t>(counters.live_bytes));
    }
  }
  for (const auto& [name, count] : deaths) {
    if (!name.empty()) curves[name];
  }
  bool leaks = false;
  for (const auto& [name, curve] : curves) {
    judged.stages.push_back(JudgeOne(name, curve, from, TimesOf(worker, name)));
    judged.stages.back().deaths = deaths[name];
    leaks |= judged.stages.back().Keeps();
  }
  std::ranges::sort(judged.stages, IsBefore, &JudgedStage::name);
  judged.process = JudgeOne("", process, from, TimesOf(worker, ""));
  judged.process.deaths = deaths[""];
  if (judged.process.Keeps() && !leaks) judged.process.memory = v1::VERDICT_KIND_RETENTION;
  judged.samples = worker.samples();
  return judged;
}

}  // namespace bulkhead::tools

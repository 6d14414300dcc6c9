#include "server/supervisor/verdict/worker_curves.h"

#include <algorithm>

#include "server/supervisor/verdict/growth_kind.h"

namespace bulkhead {
namespace {

void Fill(const GrowthCurve& curve, const GrowthCurve::Trend& trend, Finding& finding) {
  finding.bytes_per_sample = trend.per_sample;
  finding.bound_bytes = trend.bound;
  finding.kept_bytes = curve.RiseBytes();
}

}  // namespace

void WorkerCurves::Note(const FlightSnapshot& flight, uint64_t held_bytes) {
  held_bytes_ = held_bytes;
  if (flight.samples == 0) {
    start_bytes_ = held_bytes;
    return;
  }
  process_.Note(flight.samples, static_cast<int64_t>(held_bytes));
  for (const FlightSnapshot::Stage& stage : flight.stages) {
    stages_[stage.name].Note(flight.samples, stage.live_bytes);
  }
}

uint64_t WorkerCurves::JudgedFrom(bool outgrew) const {
  const uint64_t samples = process_.samples();
  if (outgrew && samples < kJudgedSamples) return samples / 3;
  return std::max(kSettledSamples, samples / 2);
}

Finding WorkerCurves::Judge(uint64_t quota_bytes, bool outgrew) const {
  Finding finding;
  finding.start_bytes = start_bytes_;
  finding.memory_bytes = held_bytes_;
  finding.samples = process_.samples();
  if (!outgrew && finding.samples < kJudgedSamples) return finding;
  const uint64_t from = JudgedFrom(outgrew);
  JudgeGrowing(from, quota_bytes, finding);
  if (finding.Keeps()) return finding;
  if (outgrew) {
    JudgeOutgrown(finding);
  } else {
    JudgeLevel(from, quota_bytes, finding);
  }
  return finding;
}

void WorkerCurves::JudgeGrowing(uint64_t from, uint64_t quota_bytes, Finding& finding) const {
  for (const auto& [name, curve] : stages_) {
    const auto leak = LeakOf(curve, from);
    if (!leak.has_value() || leak->per_sample <= finding.bytes_per_sample) continue;
    finding.kind = v1::VERDICT_KIND_LEAK;
    finding.stage = name;
    Fill(curve, *leak, finding);
  }
  if (finding.Keeps()) return;
  // The buffers of a decoder still grow a little whenever they meet a larger image.
  const auto kept = LeakOf(process_, from);
  if (kept.has_value() && kept->rise_bytes > LittleGrowth(quota_bytes)) {
    finding.kind = v1::VERDICT_KIND_RETENTION;
    Fill(process_, *kept, finding);
  }
}

// Too few samples for a trend: the stage that grew most is named, if it holds most of the growth.
void WorkerCurves::JudgeOutgrown(Finding& finding) const {
  for (const auto& [name, curve] : stages_) {
    if (curve.RiseBytes() <= finding.kept_bytes) continue;
    finding.stage = name;
    finding.kept_bytes = curve.RiseBytes();
  }
  const bool is_leak = finding.kept_bytes > 0 && finding.kept_bytes >= process_.RiseBytes() / 2;
  finding.kind = is_leak ? v1::VERDICT_KIND_LEAK : v1::VERDICT_KIND_RETENTION;
  if (!is_leak) {
    finding.stage.clear();
    finding.kept_bytes = process_.RiseBytes();
  }
  finding.bytes_per_sample = static_cast<double>(finding.kept_bytes) /
                             static_cast<double>(std::max<uint64_t>(1, finding.samples));
  finding.bound_bytes = finding.bytes_per_sample;
}

void WorkerCurves::JudgeLevel(uint64_t from, uint64_t quota_bytes, Finding& finding) const {
  const auto trend = process_.Since(from);
  if (!trend.has_value()) return;
  Fill(process_, *trend, finding);
  finding.kind = LevelOf(process_, *trend, quota_bytes);
}

}  // namespace bulkhead

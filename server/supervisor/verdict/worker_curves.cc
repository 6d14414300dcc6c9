#include "server/supervisor/verdict/worker_curves.h"

#include <algorithm>

#include "server/supervisor/verdict/growth_kind.h"

namespace bulkhead {
namespace {

void Fill(const GrowthCurve& curve, const GrowthCurve::Trend& trend, v1::Verdict& verdict) {
  verdict.set_bytes_per_sample(trend.per_sample);
  verdict.set_bound_bytes(trend.bound);
  verdict.set_kept_bytes(curve.RiseBytes());
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

v1::Verdict WorkerCurves::Judge(uint64_t quota_bytes, bool outgrew) const {
  v1::Verdict verdict;
  verdict.set_kind(v1::VERDICT_KIND_WARM_UP);
  verdict.set_start_bytes(start_bytes_);
  verdict.set_memory_bytes(held_bytes_);
  verdict.set_samples(process_.samples());
  if (!outgrew && verdict.samples() < kJudgedSamples) return verdict;
  const uint64_t from = JudgedFrom(outgrew);
  JudgeGrowing(from, quota_bytes, verdict);
  if (Keeps(verdict)) return verdict;
  if (outgrew) {
    JudgeOutgrown(verdict);
  } else {
    JudgeLevel(from, quota_bytes, verdict);
  }
  return verdict;
}

void WorkerCurves::JudgeGrowing(uint64_t from, uint64_t quota_bytes, v1::Verdict& verdict) const {
  for (const auto& [name, curve] : stages_) {
    const auto leak = LeakOf(curve, from);
    if (!leak.has_value() || leak->per_sample <= verdict.bytes_per_sample()) continue;
    verdict.set_kind(v1::VERDICT_KIND_LEAK);
    verdict.set_stage(name);
    Fill(curve, *leak, verdict);
  }
  if (Keeps(verdict)) return;
  // The buffers of a decoder still grow a little whenever they meet a larger image.
  const auto kept = LeakOf(process_, from);
  if (kept.has_value() && kept->rise_bytes > LittleGrowth(quota_bytes)) {
    verdict.set_kind(v1::VERDICT_KIND_RETENTION);
    Fill(process_, *kept, verdict);
  }
}

// Too few samples for a trend: the stage that grew most is named, if it holds most of the growth.
void WorkerCurves::JudgeOutgrown(v1::Verdict& verdict) const {
  for (const auto& [name, curve] : stages_) {
    if (curve.RiseBytes() <= verdict.kept_bytes()) continue;
    verdict.set_stage(name);
    verdict.set_kept_bytes(curve.RiseBytes());
  }
  const bool is_leak = verdict.kept_bytes() > 0 && verdict.kept_bytes() >= process_.RiseBytes() / 2;
  verdict.set_kind(is_leak ? v1::VERDICT_KIND_LEAK : v1::VERDICT_KIND_RETENTION);
  if (!is_leak) {
    verdict.clear_stage();
    verdict.set_kept_bytes(process_.RiseBytes());
  }
  verdict.set_bytes_per_sample(static_cast<double>(verdict.kept_bytes()) /
                               static_cast<double>(std::max<uint64_t>(1, verdict.samples())));
  verdict.set_bound_bytes(verdict.bytes_per_sample());
}

void WorkerCurves::JudgeLevel(uint64_t from, uint64_t quota_bytes, v1::Verdict& verdict) const {
  const auto trend = process_.Since(from);
  if (!trend.has_value()) return;
  Fill(process_, *trend, verdict);
  verdict.set_kind(LevelOf(process_, *trend, quota_bytes));
}

}  // namespace bulkhead

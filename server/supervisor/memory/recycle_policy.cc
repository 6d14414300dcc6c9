#include "server/supervisor/memory/recycle_policy.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/byte_size.h"

namespace bulkhead {
namespace {

// Samples done until a replacement is warm, plus those that the worker then holds.
double Horizon(const RecycleFacts& facts) {
  return facts.growth->SamplesWithin(absl::ToDoubleSeconds(facts.warm_up)) +
         static_cast<double>(facts.held_samples);
}

std::string GrowthFigures(const RecycleFacts& facts, double bytes_per_sample) {
  return absl::StrCat(FormatBytes(facts.growth->used_bytes()), " of ",
                      FormatBytes(facts.quota_bytes), " after ", facts.growth->samples(),
                      " samples, ", FormatBytes(static_cast<uint64_t>(bytes_per_sample)),
                      " more with each");
}

std::optional<RecycleDecision> DecideByGrowth(const RecycleFacts& facts) {
  const MemoryGrowth& growth = *facts.growth;
  const double per_sample = growth.BytesPerSample(facts.quota_bytes);
  if (per_sample <= 0) return std::nullopt;
  const auto used = static_cast<double>(growth.used_bytes());
  const auto quota = static_cast<double>(facts.quota_bytes);
  const double samples_left = std::max(0.0, (quota - used) / per_sample);
  const bool full = SamplesUntilFull(growth, facts.quota_bytes) < facts.least_samples;
  if (full || used + per_sample * Horizon(facts) >= RecycleConfig::kQuotaShare * quota) {
    return RecycleDecision{v1::RECYCLE_CAUSE_GROWTH, GrowthFigures(facts, per_sample), samples_left,
                           full || facts.outgrows};
  }
  const double step = (RecycleConfig::kLastShare - RecycleConfig::kFirstShare) / facts.slot_count;
  const double share = RecycleConfig::kFirstShare + (facts.slot + 0.5) * step;
  if (facts.outgrows && facts.slot_count > 1 && used >= share * quota &&
      growth.IsSteady(facts.quota_bytes)) {
    return RecycleDecision{
        v1::RECYCLE_CAUSE_SHARE,
        absl::StrCat(GrowthFigures(facts, per_sample),
                     absl::StrFormat("; workers in this slot are replaced at %.0f%%", share * 100)),
        samples_left};
  }
  return std::nullopt;
}

}  // namespace

uint64_t SamplesUntilFull(const MemoryGrowth& growth, uint64_t quota_bytes) {
  const double room = RecycleConfig::kFullShare * static_cast<double>(quota_bytes) -
                      static_cast<double>(growth.used_bytes());
  if (room <= 0) return 0;
  const double samples = room / growth.LastingBytesPerSample();
  constexpr auto kMost = std::numeric_limits<uint64_t>::max();
  return samples < static_cast<double>(kMost) ? static_cast<uint64_t>(samples) : kMost;
}

std::optional<RecycleDecision> DecideRecycling(const RecycleConfig& config,
                                               const RecycleFacts& facts) {
  std::optional<RecycleDecision> growth;
  if (config.by_growth && facts.quota_bytes > 0) growth = DecideByGrowth(facts);
  if (growth.has_value() && growth->is_certain) return growth;
  constexpr double kNoHurry = std::numeric_limits<double>::max();
  if (config.max_samples > 0 && facts.growth->samples() >= config.max_samples) {
    return RecycleDecision{v1::RECYCLE_CAUSE_SAMPLES,
                           absl::StrCat(facts.growth->samples(), " samples served"), kNoHurry};
  }
  if (facts.age >= config.max_age) {
    return RecycleDecision{
        v1::RECYCLE_CAUSE_AGE,
        absl::StrCat(absl::FormatDuration(absl::Trunc(facts.age, absl::Milliseconds(1))), " old"),
        kNoHurry};
  }
  return growth;
}

std::string TooFastToRecycle(const RecycleFacts& facts) {
  const MemoryGrowth& growth = *facts.growth;
  const double per_sample = growth.BytesPerSample(facts.quota_bytes);
  const double first_known =
      per_sample * (MemoryGrowth::kWarmUpSamples + MemoryGrowth::kMinSamples);
  if (first_known + per_sample * Horizon(facts) < static_cast<double>(facts.quota_bytes)) return "";
  return absl::StrFormat(
      "its memory grows by %s a sample at %.0f samples a second, and a replacement takes %s to "
      "warm up: too fast to replace workers unnoticed under a quota of %s",
      FormatBytes(static_cast<uint64_t>(per_sample)), growth.SamplesPerSecond(),
      absl::FormatDuration(absl::Trunc(facts.warm_up, absl::Milliseconds(1))),
      FormatBytes(facts.quota_bytes));
}

}  // namespace bulkhead

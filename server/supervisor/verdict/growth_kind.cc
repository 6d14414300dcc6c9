#include "server/supervisor/verdict/growth_kind.h"

#include <algorithm>

namespace bulkhead {
namespace {

// Memory has levelled off if at most this share of all growth came in the judged samples.
constexpr double kLevelShare = 0.05;
// Growth of less than this share of the quota is none.
constexpr double kCleanShare = 1.0 / 64;

}  // namespace

std::optional<GrowthCurve::Trend> LeakOf(const GrowthCurve& curve, uint64_t from) {
  const auto trend = curve.Since(from);
  const bool leaks = trend.has_value() && trend->Grows() && trend->is_new_height &&
                     trend->rise_bytes >= kLeastRise;
  return leaks ? trend : std::nullopt;
}

double LittleGrowth(uint64_t quota_bytes) {
  return std::max(2 * kLeastRise, kCleanShare * static_cast<double>(quota_bytes));
}

v1::VerdictKind LevelOf(const GrowthCurve& curve, const GrowthCurve::Trend& trend,
                        uint64_t quota_bytes) {
  const auto risen = static_cast<double>(curve.RiseBytes());
  const double little = LittleGrowth(quota_bytes);
  if (trend.rise_bytes > std::max(little, kLevelShare * risen)) {
    return v1::VERDICT_KIND_INCONCLUSIVE;
  }
  return risen > little ? v1::VERDICT_KIND_CACHE : v1::VERDICT_KIND_CLEAN;
}

GrowthKind JudgeCurve(const GrowthCurve& curve, uint64_t from) {
  if (const auto leak = LeakOf(curve, from)) return {v1::VERDICT_KIND_LEAK, *leak};
  const auto trend = curve.Since(from);
  if (!trend.has_value()) return {};
  return {LevelOf(curve, *trend, /*quota_bytes=*/0), *trend};
}

}  // namespace bulkhead

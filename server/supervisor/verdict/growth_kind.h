#pragma once

#include <cstdint>
#include <optional>

#include "bulkhead/v1/loader.pb.h"
#include "server/supervisor/verdict/growth_curve.h"

namespace bulkhead {

// The rules by which one curve is judged, for the service's verdicts and for `bulkhead doctor`.

// Growth below this, over all judged samples, is not told from noise.
inline constexpr double kLeastRise = 512 << 10;

// The trend of growth from sample `from` on that tables and caches do not explain; absent: there is
// none.
std::optional<GrowthCurve::Trend> LeakOf(const GrowthCurve& curve, uint64_t from);

// Growth over all judged samples up to which a worker with this quota does not grow; 0: no share of
// a quota counts.
double LittleGrowth(uint64_t quota_bytes);

// What a curve shows that does not leak, by its `trend`: INCONCLUSIVE, CACHE or CLEAN.
// `quota_bytes`: of the worker, of which growth of a small share is none; 0: every growth counts
// that is told from noise.
v1::VerdictKind LevelOf(const GrowthCurve& curve, const GrowthCurve::Trend& trend,
                        uint64_t quota_bytes);

// A curve judged by itself.
struct GrowthKind {
  v1::VerdictKind kind = v1::VERDICT_KIND_WARM_UP;  // too few looks; or LEAK, or as LevelOf says
  GrowthCurve::Trend trend;                         // zero with WARM_UP
};
GrowthKind JudgeCurve(const GrowthCurve& curve, uint64_t from);

}  // namespace bulkhead

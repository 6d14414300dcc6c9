#include "server/pipeline/cached_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/random.h"
#include "server/base/version.h"
#include "server/spec/canonical.h"

namespace bulkhead {
namespace {

// Everything before the cut that decides what comes out of it, as text.
std::string Recipe(const SourceChain& chain, const SourceSignature& signature) {
  const SourceChain::CachePoint& cache = chain.caches[0];
  // Another version of the service may decode otherwise.
  std::string text = absl::StrCat("bulkhead cache 1 ", kVersion, "\n");
  for (const FeatureSignature& feature : signature.source_features) {
    absl::StrAppend(&text, CanonicalString(feature.name), " ", static_cast<int>(feature.kind), " ",
                    static_cast<int>(feature.dtype), " ", feature.variable, " ",
                    absl::StrJoin(feature.shape, ","), "\n");
  }
  for (size_t i = 0; i < cache.steps_before; ++i) {
    absl::StrAppend(&text, CanonicalText(*chain.steps[i].stage), "\n");
  }
  absl::StrAppend(&text, "key=", CanonicalString(cache.stage->key()), "\n");
  return text;
}

std::vector<size_t> ReadsOf(const StagePlan& plan) {
  std::vector<size_t> reads;
  const auto add = [&](size_t feature) {
    const bool known = std::find(reads.begin(), reads.end(), feature) != reads.end();
    if (feature < plan.source_feature_count && !known) reads.push_back(feature);
  };
  for (size_t i = 0; i < plan.kept.stages; ++i) {
    for (const size_t feature : plan.stages[i].features) add(feature);
    for (const PlannedFollower& follower : plan.stages[i].followers) add(follower.feature);
  }
  return reads;
}

}  // namespace

StoreKey CachedPlan::KeptKey(const StoreKey& record, const std::vector<Value>& values) const {
  uint32_t crc32c = 0;
  uint64_t bytes = 0;
  for (const size_t feature : reads) {
    const Value& value = values[feature];
    const uint64_t extents[] = {value.size_bytes, static_cast<uint64_t>(value.count)};
    crc32c = Crc32c({reinterpret_cast<const char*>(extents), sizeof(extents)}, crc32c);
    crc32c = Crc32c({reinterpret_cast<const char*>(value.data), value.size_bytes}, crc32c);
    bytes += value.size_bytes;
  }
  const uint64_t parts[] = {record.words[0],  record.words[1], made_by.words[0],
                            made_by.words[1], crc32c,          bytes};
  return KeyOf({reinterpret_cast<const char*>(parts), sizeof(parts)});
}

absl::StatusOr<CachedPlan> PlanCached(const SourceChain& chain, const SourceSignature& signature,
                                      const v1::BatchSchema& schema, bool fuse) {
  CachedPlan cached;
  BULKHEAD_ASSIGN_OR_RETURN(
      cached.plan, PlanStages(chain, signature, schema, fuse, chain.caches[0].steps_before));
  cached.label = chain.caches[0].path + " cache";
  cached.made_by = KeyOf(Recipe(chain, signature));
  cached.reads = ReadsOf(cached.plan);
  return cached;
}

}  // namespace bulkhead

#ifndef BULKHEAD_SERVER_SUPERVISOR_POOL_SEGMENTS_H_
#define BULKHEAD_SERVER_SUPERVISOR_POOL_SEGMENTS_H_

#include <string>
#include <utility>
#include <vector>

#include "server/supervisor/cache_segments.h"
#include "server/supervisor/crew.h"
#include "server/supervisor/pipeline_config.h"
#include "server/supervisor/pool_context.h"

namespace bulkhead {

// What the workers of one pool read of the caches, and write to them. Lives on the supervisor's
// thread.
class PoolSegments {
 public:
  PoolSegments(const PoolContext& context, const PipelineConfig& config, const Crew& crew);
  // Workers that are left give back what they write to.
  ~PoolSegments();

  // Whose segments the workers read and write: the trust domain, with the code of the user's, so
  // that what other code made is not taken for this one's. Nothing is told before that is known.
  void SetDomain(std::string domain) { domain_ = std::move(domain); }
  const std::string& domain() const { return domain_; }
  // Whether workers are given segments to write to.
  void SetWrites(bool writes) { writes_ = writes; }
  // Tells the workers of what is new in the caches.
  void Tell() const;
  // Has the workers given what they may write to there, ahead of a stream that reads its data more
  // than once; false while it is on its way.
  bool Lend();
  void OnFull(PoolWorker& worker, internal::v1::CacheKind kind) const;
  void OnGone(PoolWorker& worker) const;

 private:
  const Crew& crew_;
  std::vector<CacheSegments*> used_;  // caches that the pipeline has a use for
  std::string domain_;                // empty: not known yet
  bool writes_ = false;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_POOL_SEGMENTS_H_

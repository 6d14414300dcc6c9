#pragma once

#include <string>
#include <vector>

#include "server/supervisor/pool/cache_segments.h"
#include "server/supervisor/pool/pool_part.h"

namespace bulkhead {

// The cache segments that the workers of one pool read and write. Lives on the supervisor's thread.
class PoolSegments : PoolPart {
 public:
  explicit PoolSegments(const PoolPart& pool);
  // Takes back the segments of remaining workers.
  ~PoolSegments() {
    crew_.ForEach([this](PoolWorker& worker) { OnGone(worker); });
  }

  // The trust domain of the segments, which identifies the user code, so that segments made by
  // other code are not read. Workers get no segments before it is set. It changes when more code is
  // loaded: workers then leave the segments that they write to.
  void SetDomain(const std::string& domain);
  // Sets the domain of a pipeline with user code, of which the workers have loaded `files`.
  void SetCode(const std::vector<v1::CodeFile>& files);
  // The worker has loaded code that the domain covers.
  void OnCode(PoolWorker& worker) const {
    for (CacheSegments* segments : used_) segments->OnCode(worker);
  }
  const std::string& domain() const { return domain_; }
  // Whether workers get segments to write to.
  void SetWrites(bool writes) { writes_ = writes; }
  // Tells the workers of new segments.
  void Tell() const;
  // Gives the workers their segments to write to, ahead of a stream that reads its data more than
  // once. False while the segments are on their way.
  bool Lend();
  void OnFull(PoolWorker& worker, internal::v1::CacheKind kind) const;
  void OnGone(PoolWorker& worker) const {
    for (CacheSegments* segments : used_) segments->OnGone(worker);
  }

 private:
  std::vector<CacheSegments*> used_;  // caches that the pipeline uses
  std::string domain_;                // empty: not known yet
  bool writes_ = false;
};

}  // namespace bulkhead

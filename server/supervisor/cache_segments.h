#ifndef BULKHEAD_SERVER_SUPERVISOR_CACHE_SEGMENTS_H_
#define BULKHEAD_SERVER_SUPERVISOR_CACHE_SEGMENTS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "bulkhead/v1/loader.pb.h"
#include "server/cache/segment_folder.h"
#include "server/supervisor/pool_worker.h"

namespace bulkhead {

// Hands the segments of one cache out to workers: all of them to everyone for reading, and one to
// each for writing, where there is room. What stands in them is the workers' business. Lives on the
// supervisor's thread.
class CacheSegments {
 public:
  // No `folder`: nothing is kept, and `reason` says why.
  CacheSegments(internal::v1::CacheKind kind, std::unique_ptr<SegmentFolder> folder,
                std::string reason)
      : kind_(kind), folder_(std::move(folder)), reason_(std::move(reason)) {}

  // Tells a bound worker of segments that it does not know yet. With `writes` it is given one to
  // write to, if it has none. Cheap when there is nothing to tell.
  void Tell(PoolWorker& worker, bool writes);
  // The worker's segment is full; the next Tell gives it another.
  void OnFull(PoolWorker& worker) { GiveBack(worker); }
  // The worker is gone, or will write no more.
  void OnGone(PoolWorker& worker) { GiveBack(worker); }

  internal::v1::CacheKind kind() const { return kind_; }
  void Describe(v1::CacheStatus& status) const;

 private:
  PoolWorker::Segments& Of(PoolWorker& worker) const { return worker.segments[kind_]; }
  void Send(PoolWorker& worker, int fd, bool writable) const;
  void GiveBack(PoolWorker& worker);
  void Lend(PoolWorker& worker);

  const internal::v1::CacheKind kind_;
  const std::unique_ptr<SegmentFolder> folder_;
  std::string reason_;
  int64_t no_lending_before_ns_ = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_CACHE_SEGMENTS_H_

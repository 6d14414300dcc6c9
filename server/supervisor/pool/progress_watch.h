#pragma once

#include <cstdint>
#include <string>

#include "server/supervisor/pool/pool_part.h"

namespace bulkhead {

// Kills workers of a pool that hang, and reports what workers are doing. Lives on the supervisor's
// thread.
class ProgressWatch : PoolPart {
 public:
  explicit ProgressWatch(const PoolPart& pool) : PoolPart(pool) {}

  // Kills a worker that hangs. False if a killed worker has not exited in time and should be
  // written off.
  bool Look(PoolWorker& worker, int64_t now_ns) const;
  // Tells streams that have had no batch for a while what their workers are doing; at most every
  // second.
  void TellActivity(int64_t now_ns);
  // For a pool without streams: whether a worker has kept working since the last call, at a lease
  // or in threads of user code.
  bool IsRestless() const;

 private:
  // Whether it finishes nothing, and no thread explains why.
  bool IsStalled(const PoolWorker& worker, const FlightSnapshot& flight, int64_t now_ns) const;
  // Asks a worker with a thread that hangs in the interpreter for its stacks. True while it may
  // still answer.
  bool AwaitsStacks(PoolWorker& worker, int64_t now_ns) const;
  std::string ActivityFor(const Stream& stream, int64_t now_ns) const;

  int64_t activity_told_ns_ = 0;
};

}  // namespace bulkhead

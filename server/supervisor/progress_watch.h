#ifndef BULKHEAD_SERVER_SUPERVISOR_PROGRESS_WATCH_H_
#define BULKHEAD_SERVER_SUPERVISOR_PROGRESS_WATCH_H_

#include <cstdint>
#include <string>

#include "server/supervisor/crew.h"
#include "server/supervisor/pipeline_config.h"
#include "server/supervisor/pool_streams.h"
#include "server/supervisor/worker_timeouts.h"

namespace bulkhead {

// Whether a pool's workers get ahead: kills those that hang, and says what they are at. Lives on
// the supervisor's thread.
class ProgressWatch {
 public:
  ProgressWatch(const PipelineConfig& config, const PoolTimeouts& timeouts, const Crew& crew)
      : config_(config), timeouts_(timeouts), crew_(crew) {}

  // Kills a worker that hangs. False when it was killed a while ago and does not end: it is to be
  // written off.
  bool Look(PoolWorker& worker, int64_t now_ns) const;
  // Tells the streams that have been without a batch for a while what their workers are at; at most
  // every second.
  void TellActivity(const PoolStreams& streams, int64_t now_ns);
  // Of a pool without streams: whether a worker went on working all the same since the last call,
  // at a lease or in threads of the user's code.
  bool IsRestless() const;

 private:
  // It finishes nothing, and none of its threads says why.
  bool IsStalled(const PoolWorker& worker, const FlightSnapshot& flight, int64_t now_ns) const;
  // Asks a worker one of whose threads hangs in the interpreter for its stacks. True while it may
  // still answer.
  bool AwaitsStacks(PoolWorker& worker, int64_t now_ns) const;
  std::string ActivityFor(const PoolStreams& streams, const Stream& stream, int64_t now_ns) const;

  const PipelineConfig& config_;
  const PoolTimeouts& timeouts_;
  const Crew& crew_;
  int64_t activity_told_ns_ = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_PROGRESS_WATCH_H_

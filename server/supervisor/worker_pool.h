#ifndef BULKHEAD_SERVER_SUPERVISOR_WORKER_POOL_H_
#define BULKHEAD_SERVER_SUPERVISOR_WORKER_POOL_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "server/supervisor/blame.h"
#include "server/supervisor/crew.h"
#include "server/supervisor/dispatcher.h"
#include "server/supervisor/loaded_code.h"
#include "server/supervisor/memory_watch.h"
#include "server/supervisor/pipeline_config.h"
#include "server/supervisor/planned_replacement.h"
#include "server/supervisor/pool_context.h"
#include "server/supervisor/pool_report.h"
#include "server/supervisor/pool_segments.h"
#include "server/supervisor/pool_streams.h"
#include "server/supervisor/progress_watch.h"
#include "server/supervisor/worker_starter.h"

namespace bulkhead {

// The workers of one pipeline and the streams that they serve: starts them, has the leases of
// workers that die done by others, and starts others in their places. What a message, an end or a
// look at the workers means is decided in its parts, which do not know each other:
//
//   streams, crew            what there is to do, and who is there
//   dispatcher               which worker gets which lease; suspects
//   blame                    whose doing a death is; poison
//   memory, progress watch   who holds too much, who hangs
//   replacement              who is replaced before it breaks
//   starter, segments, code  what a worker is given, and what it has loaded
//   report                   what all of them have done
//
// Lives on the supervisor's thread.
class WorkerPool {
 public:
  WorkerPool(PoolContext context, PipelineConfig config);
  ~WorkerPool();

  const PipelineConfig& config() const { return config_; }
  const PoolStreams& streams() const { return streams_; }
  LoadedCode& code() { return code_; }
  PoolSegments& segments() { return segments_; }
  // Broken pools serve nobody any more: their workers could not be bound, or crash in a loop.
  bool broken() const { return !failure_.ok(); }

  // Spawns the workers; the first streams may be added at once.
  void Start();
  void AddStream(std::shared_ptr<Stream> stream);
  // False when the pool has no such stream.
  bool RemoveStream(uint64_t stream_id);
  // Hands planned leases to workers that have room.
  void Dispatch();
  // Ends every stream with `status`, and who waits for code.
  void FailStreams(const absl::Status& status);
  // As ProgressWatch::IsRestless.
  bool IsRestless() const { return progress_watch_.IsRestless(); }
  // Replaces every worker, or the one in `slot`, one after another. Returns how many.
  uint32_t Recycle(std::optional<uint32_t> slot);

  // Ends all workers until Resume, since their memory is needed and no stream needs them now; the
  // pool's claim is let go of when the last of them was reaped. False, and nothing happens, while a
  // worker has work, is being replaced or is lost.
  bool Park();
  bool parked() const { return parked_ && !resume_.has_value(); }
  // Starts so many workers in a parked pool, once the old ones were reaped; `memory` is promised to
  // them.
  void Resume(uint32_t workers, MemoryClaim memory);

  // Adds the workers (without their memory and CPU time) and streams, and what the pool has done.
  void AppendStatus(v1::GetStatusResponse& response) const;
  // Adds what the pool has done alone.
  void AppendTotals(v1::GetStatusResponse& response) const;

 private:
  void StartWorker(Slot& slot);
  // A worker died in its place, or could not be started there: starts another, after a while.
  // `idle`: the pool's end if workers that have no lease, as this one, end time and again; OK: it
  // had one.
  void RestartLater(Slot& slot, const absl::Status& idle);
  void OnMessage(PoolWorker& worker, const internal::v1::FromWorker& message);
  void OnBound(PoolWorker& worker, const internal::v1::Bound& bound);
  void OnFailed(PoolWorker& worker, const internal::v1::Failed& failed);
  void OnExit(PoolWorker& worker, const WorkerEnd& told_end);
  void FailAll(const absl::Status& status);
  // Of a parked pool: when no worker is left, lets go of their memory and resumes, if it shall.
  void OnUnmanned();
  void Watch();
  void ScheduleWatch(bool soon);
  void WriteOff(PoolWorker& worker);

  const PoolContext context_;
  const PipelineConfig config_;
  Crew crew_;
  PoolStreams streams_;
  LoadedCode code_;
  PoolSegments segments_;
  MemoryWatch memory_watch_;
  const WorkerStarter starter_;
  Dispatcher dispatcher_;
  Blame blame_;
  ProgressWatch progress_watch_;
  PlannedReplacement replacement_;
  PoolReport report_;
  absl::Status failure_;
  EventLoop::TimerId watch_timer_ = 0;
  bool watch_soon_ = false;
  bool parked_ = false;
  struct Resumption {
    uint32_t workers = 0;
    MemoryClaim memory;
  };
  std::optional<Resumption> resume_;  // of a parked pool whose workers end
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_WORKER_POOL_H_

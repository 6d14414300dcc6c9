#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "server/supervisor/pool/blame.h"
#include "server/supervisor/pool/dispatcher.h"
#include "server/supervisor/pool/loaded_code.h"
#include "server/supervisor/pool/memory_watch.h"
#include "server/supervisor/pool/planned_replacement.h"
#include "server/supervisor/pool/pool_part.h"
#include "server/supervisor/pool/pool_report.h"
#include "server/supervisor/pool/pool_segments.h"
#include "server/supervisor/pool/pool_tuning.h"
#include "server/supervisor/pool/pool_verdict.h"
#include "server/supervisor/pool/progress_watch.h"
#include "server/supervisor/pool/worker_starter.h"
#include "server/supervisor/share/share_groups.h"

namespace bulkhead {

// The workers of one pipeline and the streams that they serve. Starts the workers, replaces those
// that die, and has their leases done by others. Its parts, which do not know each other, decide
// what each message, exit and reading means:
//
//   streams, crew            what there is to do, and who is there
//   dispatcher               which worker gets which lease; suspects
//   blame                    what caused a death; poison
//   memory, progress watch   who holds too much, who hangs
//   replacement              who is replaced before it reaches a limit
//   tuning                   how many there are
//   starter, segments, code  what a worker is given, and what it has loaded
//   report, verdict          what all of them have done, and how their memory grows
//   share groups             which batches are made once for several streams
//
// Lives on the supervisor's thread.
class WorkerPool {
 public:
  // Starts the workers. Streams may be added at once.
  WorkerPool(PoolContext context, PipelineConfig config);
  ~WorkerPool();

  const PipelineConfig& config() const { return config_; }
  const PoolStreams& streams() const { return streams_; }
  LoadedCode& code() { return code_; }
  PoolSegments& segments() { return segments_; }
  // What others get first when they need memory: workers that tuning added, and arenas in which
  // streams share batches.
  struct Spare {
    PoolTuning& tuning;
    ShareGroups& share_groups;
  };
  Spare spare() { return {tuning_, share_groups_}; }
  // A broken pool serves no streams any more: its workers could not be bound, or crash in a loop.
  bool broken() const { return !failure_.ok(); }

  void AddStream(std::shared_ptr<Stream> stream);
  // False if the pool has no such stream.
  bool RemoveStream(uint64_t stream_id);
  // Assigns planned leases to workers with room.
  void Dispatch();
  // Ends every stream, and every wait for code, with `status`.
  void FailStreams(const absl::Status& status) {
    code_.Fail(status);
    for (const auto& stream : streams_.all()) stream->Fail(status);
  }
  // See ProgressWatch::IsRestless.
  bool IsRestless() const { return progress_watch_.IsRestless(); }
  // Replaces every worker, or the one in `slot`, one after another. Returns their number.
  uint32_t Recycle(std::optional<uint32_t> slot);

  // Ends all workers until Resume, because their memory is needed and no stream needs them now. The
  // pool's claim is released when the last of them is reaped. False, and without effect, while a
  // worker has work, is being replaced or is lost.
  bool Park();
  bool parked() const { return parked_ && !resume_.has_value(); }
  // Starts `workers` workers in a parked pool, once the old ones are reaped. `memory` is their
  // claim.
  void Resume(uint32_t workers, MemoryClaim memory) {
    resume_ = Resumption{workers, std::move(memory)};
    OnUnmanned();
  }

  // Adds the workers (without their memory and CPU time), the streams and the totals.
  void AppendStatus(v1::GetStatusResponse& response) const;
  // Adds the pool's totals only.
  void AppendTotals(v1::GetStatusResponse& response) const {
    streams_.AppendTotals(response);
    report_.AppendTotals(response);
  }

 private:
  void StartWorker(Slot& slot);
  // A worker died in its place, or could not be started: starts another after a back-off. `idle`:
  // the worker had no lease, and this error ends the pool if that keeps happening; OK: it had one.
  void RestartLater(Slot& slot, const absl::Status& idle);
  void OnMessage(PoolWorker& worker, const internal::v1::FromWorker& message);
  void OnBound(PoolWorker& worker, const internal::v1::Bound& bound);
  void OnFailed(PoolWorker& worker, const internal::v1::Failed& failed);
  void OnExit(PoolWorker& worker, const WorkerEnd& told_end);
  void FailAll(const absl::Status& status);
  // In a parked pool without workers: releases their memory, and resumes if requested.
  void OnUnmanned();
  void Watch();
  void ScheduleWatch(bool soon);
  void WriteOff(PoolWorker& worker);

  const PoolContext context_;
  const PipelineConfig config_;
  Crew crew_;
  PoolStreams streams_;
  const PoolPart part_{context_, config_, crew_, streams_};
  LoadedCode code_;
  PoolSegments segments_;
  MemoryWatch memory_watch_;
  const WorkerStarter starter_;
  Dispatcher dispatcher_;
  Blame blame_;
  ProgressWatch progress_watch_;
  PlannedReplacement replacement_;
  PoolTuning tuning_;
  PoolReport report_;
  PoolVerdict verdict_;
  ShareGroups share_groups_;
  absl::Status failure_;
  EventLoop::TimerId watch_timer_ = 0;
  bool watch_soon_ = false;
  bool parked_ = false;
  struct Resumption {
    uint32_t workers = 0;
    MemoryClaim memory;
  };
  std::optional<Resumption> resume_;  // of a parked pool whose workers are ending
};

}  // namespace bulkhead

#ifndef BULKHEAD_SERVER_SUPERVISOR_SUPERVISOR_H_
#define BULKHEAD_SERVER_SUPERVISOR_SUPERVISOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "server/os/event_loop.h"
#include "server/supervisor/compartment.h"
#include "server/supervisor/exit_log.h"
#include "server/supervisor/index_jobs.h"
#include "server/supervisor/stream.h"
#include "server/supervisor/worker_pool.h"
#include "server/supervisor/worker_timeouts.h"
#include "server/supervisor/worker_usage.h"

namespace bulkhead {

// Owns every worker process and every open stream. One thread (the loop's) holds all state and
// spawns all workers, so that they die with it; the public functions may be called from any thread
// and only post to it.
//
//   service threads ──OpenStream, AddIndexJob──▶ [loop thread: pools, streams, index jobs]
//   ──observer──▶ service
//
// Life: Start → … → Shutdown, or destruction, which kills every worker.
class Supervisor {
 public:
  struct Config {
    std::string worker_program;  // absolute path of bulkhead-worker
    uint32_t max_index_workers = 1;
    // A pool without streams gives up its workers after this long.
    absl::Duration idle_pool = absl::Seconds(30);
    PoolTimeouts timeouts;
    RecycleConfig recycle;
    // What every worker enters before it sees data.
    internal::v1::Sandbox sandbox;
    // Refuse to start where no cgroup can hold the workers.
    bool require_cgroup = false;
    // Names the workers' cgroups: the service's boot id.
    std::string name = "supervisor";
  };

  // Errors: Compartment::Open's, where a cgroup is required.
  static absl::StatusOr<std::unique_ptr<Supervisor>> Start(Config config);
  ~Supervisor();

  // Opens a stream on a pipeline, whose workers are started when nobody uses it yet. Returns the
  // stream's id; all else comes through the observer.
  uint64_t OpenStream(PipelineConfig pipeline, StreamConfig stream);
  // Nobody listens to the stream any more. The observer may still be called until this was carried
  // out.
  void CloseStream(uint64_t stream_id);

  // As IndexJobs::Add; the id is for CancelIndexJob, which blocks until the job's callbacks can no
  // longer come.
  uint64_t AddIndexJob(IndexJob job);
  void CancelIndexJob(uint64_t job_id);

  // Replaces the workers of the pipeline with that name (empty: of all), or the one in `slot` of
  // each, one after another. Returns how many.
  uint32_t Recycle(const std::string& pipeline, std::optional<uint32_t> slot);

  // Workers, streams, exits, CPU time. Blocks for the loop, then for reading /proc. Totals never go
  // down.
  v1::GetStatusResponse GetStatus();

  // Ends every stream with `status`, and every one that is opened later; the observers of the
  // former have been told when it returns.
  void EndStreams(const absl::Status& status);

  // Kills and reaps every worker, drops every stream and index job. Blocks until the loop's thread
  // has ended: a worker that cannot be reaped for two seconds is left behind.
  // Idempotent.
  void Shutdown();

 private:
  Supervisor(Config config, std::shared_ptr<EventLoop> loop,
             std::unique_ptr<Compartment> compartment);

  struct PoolEntry {
    std::unique_ptr<WorkerPool> pool;
    int64_t idle_since_ns = 0;
  };

  // The pool that serves `pipeline`; started when there is none that is not broken.
  WorkerPool& PoolFor(const PipelineConfig& pipeline);
  void DropIdlePools();
  // Ends the loop when every worker is reaped, or when it is `deadline_ns`.
  void StopWhenReaped(int64_t deadline_ns);
  // Runs `work` on the loop's thread and waits for it.
  void RunOnLoop(const std::function<void()>& work);

  const Config config_;
  const std::shared_ptr<EventLoop> loop_;
  std::thread thread_;
  std::atomic<uint64_t> next_stream_id_{1};
  bool shut_down_ = false;

  // Of the loop's thread.
  std::unique_ptr<Compartment> compartment_;  // outlives the workers
  ExitLog exits_;
  ReplacementGate replacement_gate_;
  std::unique_ptr<IndexJobs> index_jobs_;
  std::vector<PoolEntry> pools_;
  absl::Status ending_;                // not OK once streams are opened no more
  v1::GetStatusResponse past_totals_;  // of pools that are gone

  UsageReader usage_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_SUPERVISOR_H_

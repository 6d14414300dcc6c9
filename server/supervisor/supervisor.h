#ifndef BULKHEAD_SERVER_SUPERVISOR_SUPERVISOR_H_
#define BULKHEAD_SERVER_SUPERVISOR_SUPERVISOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "server/os/event_loop.h"
#include "server/os/files/io_thread.h"
#include "server/supervisor/compartment.h"
#include "server/supervisor/exit_log.h"
#include "server/supervisor/index_jobs.h"
#include "server/supervisor/memory_budget.h"
#include "server/supervisor/pools.h"
#include "server/supervisor/scratch_folders.h"
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
    // Its arguments, for pipelines.
    std::vector<std::string> worker_args;
    // As WorkerProgram::environment; the Python program has its own.
    std::vector<std::string> worker_environment;
    // What runs pipelines with Python stages.
    WorkerProgram python_program;
    uint32_t max_index_workers = 1;
    // A pool without streams gives up its workers after this long.
    absl::Duration idle_pool = absl::Seconds(30);
    // A stream whose client took no batch for so long gives up what others need.
    absl::Duration idle_stream = absl::Seconds(300);
    MemoryBudget::Config memory;
    uint64_t index_worker_quota_bytes = 0;
    // The container's memory limit, read again every so often; null: it never changes.
    std::function<uint64_t()> read_memory_limit;
    absl::Duration limit_interval = absl::Seconds(5);
    PoolTimeouts timeouts;
    RecycleConfig recycle;
    // What every worker enters before it sees data.
    internal::v1::Sandbox sandbox;
    // Refuse to start where no cgroup can hold the workers.
    bool require_cgroup = false;
    // false: workers are promised their quotas, and not held to them.
    bool enforce_quotas = true;
    // Names the workers' cgroups: the service's boot id.
    std::string name = "supervisor";
    // Where something is kept from sample to sample: a folder, and the bytes that it may take.
    // Empty: nothing is, and why.
    struct Cache {
      std::string folder;
      uint64_t bytes = 0;
      std::string reason;
    };
    Cache seek_entries;  // of JPEG images
    Cache cache_stages;
    // Where workers with user code get a folder to write in; empty: they get none.
    std::string scratch_folder;
    // What may wait for a disk is done there; null: on one of the supervisor's own.
    std::shared_ptr<IoThread> io;
    // Where workers' words go: SpawnSpec::output_fd.
    int worker_output_fd = -1;
  };

  // Errors: Compartment::Open's, where a cgroup is required.
  static absl::StatusOr<std::unique_ptr<Supervisor>> Start(Config config);
  ~Supervisor();

  // The loop's thread is said to be silent when it was at one thing for so long.
  static constexpr absl::Duration kSilence = absl::Seconds(5);
  // For how long it has been silent, as far as those know who ask every second or so; zero when it
  // is not. Does not block.
  absl::Duration SilentFor() const;

  // Admits a stream against the memory budget, with as many of the pipeline's workers as fit, and
  // starts them when nobody uses it yet. Pipelines without streams give up their workers for it, if
  // that helps; so do, where it would be refused otherwise, streams that nobody reads: first their
  // workers, then their places (STREAM_IDLE). `legacy`: what its predecessor left to it; may be
  // null. Blocks for the loop, and until such memory came back, two seconds at most. Errors as
  // MemoryBudget::Admit's.
  absl::StatusOr<Admission> Admit(const PipelineConfig& pipeline, uint32_t slot_count,
                                  uint64_t slot_bytes, Legacy* legacy = nullptr);

  // The user's files that workers of the pipeline have loaded, whichever content they had. Blocks
  // for the loop.
  std::vector<std::string> CodeOf(const std::string& pipeline_key);
  // As LoadedCode::WhenKnown, of the pool that a stream was admitted to; `told` is called on the
  // loop's thread.
  void WhenLoaded(const PoolSeat& pool, LoadedCode::Told told);

  // Waits until the workers of the pool that a stream was admitted to have what they may write to
  // of caches, for a stream that reads its data more than once; a moment at most: without, they
  // keep nothing.
  void AwaitSegments(const PoolSeat& pool);

  // Opens a stream on the pool that it was admitted to. Returns the stream's id; all else comes
  // through the observer.
  uint64_t OpenStream(const PoolSeat& pool, StreamConfig stream);
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
  // down. While the loop is silent, that alone.
  v1::GetStatusResponse GetStatus();
  // Planned replacements since the start. Blocks for the loop, as GetStatus does; none while that
  // is silent.
  std::map<v1::RecycleCause, uint64_t> RecyclingCounts();

  // Ends every stream with `status`, and every one that is opened later; the observers of the
  // former have been told when it returns.
  void EndStreams(const absl::Status& status);

  // Kills and reaps every worker, drops every stream and index job. Blocks until the loop's thread
  // has ended: a worker that cannot be reaped for two seconds is left behind. False when the loop
  // is silent: then its thread still runs, and the process can only be ended. Idempotent.
  bool Shutdown();

 private:
  Supervisor(Config config, std::shared_ptr<EventLoop> loop,
             std::unique_ptr<Compartment> compartment, std::shared_ptr<MemoryBudget> budget);

  Pools::Config PoolsConfig();
  // Null when the place for a replacement is smaller than an index worker's quota.
  ReplacementGate* IndexWorkersGate();
  void CheckMemoryLimit();
  // Tells the workers of all pools what is new in the caches.
  void SendSegments();
  // Ends the loop when every worker is reaped, or when it is `deadline_ns`.
  void StopWhenReaped(int64_t deadline_ns);
  // Runs `work` on the loop's thread and waits for it.
  void RunOnLoop(const std::function<void()>& work);
  // The same, unless the loop is silent or falls silent: then false, and `work`, which owns what it
  // touches, may be run later.
  bool TryOnLoop(std::function<void()> work);

  const Config config_;
  const std::shared_ptr<EventLoop> loop_;
  std::thread thread_;
  std::atomic<uint64_t> next_stream_id_{1};
  bool shut_down_ = false;
  bool ended_ = true;  // the loop's thread has, since Shutdown

  const std::shared_ptr<MemoryBudget> budget_;

  // Of the loop's thread.
  std::unique_ptr<Compartment> compartment_;  // outlives the workers
  CacheSegments seek_segments_;
  CacheSegments stage_segments_;
  std::unique_ptr<ScratchFolders> scratch_;  // null: there are none
  ExitLog exits_;
  ReplacementGate replacement_gate_;
  Pools pools_;
  std::unique_ptr<IndexJobs> index_jobs_;

  UsageReader usage_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_SUPERVISOR_H_

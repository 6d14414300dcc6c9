#pragma once

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
#include "server/os/files/read_ahead.h"
#include "server/os/process/spawner.h"
#include "server/supervisor/index_jobs.h"
#include "server/supervisor/memory/memory_budget.h"
#include "server/supervisor/pools.h"
#include "server/supervisor/worker/compartment.h"
#include "server/supervisor/worker/exit_log.h"
#include "server/supervisor/worker/scratch_folders.h"
#include "server/supervisor/worker/worker_timeouts.h"
#include "server/supervisor/worker/worker_usage.h"

namespace bulkhead {

// Owns every worker process and every open stream. The loop's thread holds all state. The public
// functions are thread-safe: they post to that thread.
//
//   service threads ──OpenStream, AddIndexJob──▶ [loop thread: pools, streams, index jobs]
//   ──observer──▶ service
//
// Life: Start → … → Shutdown, or destruction, which kills every worker.
class Supervisor {
 public:
  struct Config {
    std::string worker_program;  // absolute path of bulkhead-worker
    // Its arguments when it runs pipelines.
    std::vector<std::string> worker_args;
    // See WorkerProgram::environment. The Python program has its own.
    std::vector<std::string> worker_environment;
    // Runs pipelines with Python stages.
    WorkerProgram python_program;
    uint32_t max_index_workers = 1;
    // A pool without streams gives up its workers after this long.
    absl::Duration idle_pool = absl::Seconds(30);
    // A stream whose client took no batch for this long gives up workers and memory that others
    // need.
    absl::Duration idle_stream = absl::Seconds(300);
    MemoryBudget::Config memory;
    uint64_t index_worker_quota_bytes = 0;
    // Reads the container's memory limit, every `limit_interval`; null: the limit never changes.
    std::function<uint64_t()> read_memory_limit;
    absl::Duration limit_interval = absl::Seconds(5);
    PoolTimeouts timeouts;
    RecycleConfig recycle;
    // Every worker enters it before it sees data.
    internal::v1::Sandbox sandbox;
    // Refuse to start where no cgroup can hold the workers.
    bool require_cgroup = false;
    // false: workers are promised quotas, but these are not enforced.
    bool enforce_quotas = true;
    // Part of the names of the workers' cgroups: the service's boot id.
    std::string name = "supervisor";
    // The folder of a cache and the bytes it may take. An empty folder disables the cache, with the
    // reason.
    struct Cache {
      std::string folder;
      uint64_t bytes = 0;
      std::string reason;
    };
    Cache seek_entries;  // of JPEG images
    Cache coefficients;  // of JPEG images
    Cache cache_stages;
    // Workers with user code get a folder to write in here; empty: they get none.
    std::string scratch_folder;
    // Made batches that a group of sharing streams keeps; 0: streams share nothing.
    uint32_t share_window = 0;
    // Runs what may block on a disk; null: the supervisor makes its own.
    std::shared_ptr<IoThread> io;
    // Copies shared batches; null: the supervisor makes its own, if streams may share.
    std::shared_ptr<IoThread> copier;
    WorkerOutput worker_output;
  };

  // Errors: those of Compartment::Open, if a cgroup is required.
  static absl::StatusOr<std::unique_ptr<Supervisor>> Start(Config config);
  ~Supervisor();

  // The loop's thread counts as silent after this long in one task.
  static constexpr absl::Duration kSilence = absl::Seconds(5);
  // For how long the loop has been silent; zero if it is not. Exact only if asked about every
  // second. Does not block.
  absl::Duration SilentFor() const {
    const absl::Duration silent = loop_->SilentFor();
    return silent < kSilence ? absl::ZeroDuration() : silent;
  }

  // Whether streams may share batches.
  bool shares_batches() const { return config_.share_window > 0; }
  // Promises the quota of a process that is no worker. Errors: those of MemoryBudget::Admit.
  // Thread-safe.
  absl::StatusOr<MemoryClaim> AdmitProcess(uint64_t quota_bytes) {
    return budget_->AdmitWorker(quota_bytes);
  }
  // Admits a stream against the memory budget, with as many of the pipeline's workers as fit, and
  // starts them if the pipeline is new. If needed and enough, pipelines without streams give up
  // their workers. To avoid a refusal unread streams give up their workers, then their places
  // (STREAM_IDLE). `legacy`: left by the stream's predecessor; may be null. `more_slots`: as in
  // MemoryBudget::Demand. Blocks for the loop, and at most two seconds for such memory. Errors:
  // those of MemoryBudget::Admit.
  absl::StatusOr<Admission> Admit(const PipelineConfig& pipeline, uint32_t slot_count,
                                  uint64_t slot_bytes, Legacy* legacy = nullptr,
                                  uint32_t more_slots = 0);

  // Admits the memory of a client's dataset, as Admit does a stream. Errors: those of Admit.
  absl::StatusOr<MemoryClaim> AdmitDataset(uint64_t bytes);
  // Ends the workers of a pipeline with datasets that has been idle for longest, so that these can
  // go once the workers are reaped. False if there is none. Blocks for the loop.
  bool EndIdleWithDataset();

  // A seat among the workers that `pipeline` would be admitted to, for finding out whether they
  // come up. Null unless they and an arena of `slot_count` slots fit wholly while nobody gives up
  // anything. Blocks for the loop.
  PoolSeat TrySeat(const PipelineConfig& pipeline, uint32_t slot_count, uint64_t slot_bytes);

  // The user's files that workers of the pipeline have loaded, whichever content they had. Blocks
  // for the loop.
  std::vector<std::string> CodeOf(const std::string& pipeline_key);
  // See LoadedCode::WhenKnown. `told` is called on the loop's thread.
  void WhenLoaded(const PoolSeat& pool, LoadedCode::Told told);

  // For a stream that reads its data more than once: waits briefly until the pool's workers have
  // their cache segments to write to. Workers without a segment cache nothing.
  void AwaitSegments(const PoolSeat& pool);

  // Opens a stream on the pool that it was admitted to. Returns its id. Everything else arrives
  // through the observer.
  uint64_t OpenStream(const PoolSeat& pool, StreamConfig stream);
  // Closes a stream whose client is gone. The observer may still be called until this has been
  // carried out.
  void CloseStream(uint64_t stream_id) {
    loop_->Post([this, stream_id] { pools_.RemoveStream(stream_id); });
  }

  // See IndexJobs::Add. CancelIndexJob takes its id and blocks until the job's callbacks can no
  // longer come.
  uint64_t AddIndexJob(IndexJob job);
  void CancelIndexJob(uint64_t job_id);

  // Replaces the workers of the pipeline with that name (empty: all pipelines), or the one in
  // `slot` of each, one after another. Returns their number.
  uint32_t Recycle(const std::string& pipeline, std::optional<uint32_t> slot);

  // Workers, streams, exits, CPU time. Blocks for the loop, then for reading /proc. Totals never
  // decrease. While the loop is silent the answer says only that.
  v1::GetStatusResponse GetStatus(bool fresh_memory = false);
  // Planned replacements since the start. Blocks for the loop; empty while the loop is silent.
  std::map<v1::RecycleCause, uint64_t> RecyclingCounts();

  // Begins a trace of the streams with that name (empty: of all), which ends after `duration`, and
  // returns its number in the log. Errors: those of TraceLog::Begin. Does not block.
  absl::StatusOr<uint64_t> BeginTrace(const std::string& stream_name, absl::Duration duration);
  TraceLog& trace_log() const { return *tracer_->log(); }

  // Ends every stream with `status`, and every one opened later. Open streams' observers have been
  // told when it returns.
  void EndStreams(const absl::Status& status) {
    TryOnLoop([this, status] { pools_.End(status); });
  }

  // Kills and reaps every worker, and drops every stream and index job. Blocks until the loop's
  // thread has ended; leaves behind a worker that cannot be reaped within two seconds. False if the
  // loop is silent: its thread still runs, so the process must be ended. Idempotent.
  bool Shutdown();

 private:
  Supervisor(Config config, std::shared_ptr<EventLoop> loop,
             std::unique_ptr<Compartment> compartment, std::shared_ptr<MemoryBudget> budget);

  Pools::Config PoolsConfig();
  void CheckMemoryLimit() {
    pools_.SetLimit(config_.read_memory_limit());
    loop_->After(config_.limit_interval, [this] { CheckMemoryLimit(); });
  }
  // Ends the loop when every worker is reaped, or at `deadline_ns`.
  void StopWhenReaped(int64_t deadline_ns);
  // Runs `work` on the loop's thread and waits for it.
  void RunOnLoop(const std::function<void()>& work);
  // The same; returns what `work` does.
  template <typename Work>
  auto AskLoop(const Work& work) {
    std::optional<decltype(work())> answer;
    RunOnLoop([&] { answer.emplace(work()); });
    return *std::move(answer);
  }
  // Like RunOnLoop; false if the loop is silent or becomes silent. `work` may then run later, so it
  // must own what it uses.
  bool TryOnLoop(std::function<void()> work);

  const Config config_;
  const std::shared_ptr<EventLoop> loop_;
  const std::shared_ptr<Tracer> tracer_ = std::make_shared<Tracer>(loop_);
  std::thread thread_;
  std::atomic<uint64_t> next_stream_id_{1};
  bool shut_down_ = false;
  bool ended_ = true;  // the loop's thread has ended, in Shutdown

  const std::shared_ptr<MemoryBudget> budget_;

  // Used by the loop's thread only.
  Spawner spawner_;                           // workers die with it
  std::unique_ptr<Compartment> compartment_;  // outlives the workers
  CacheSegments seek_segments_;
  CacheSegments coefficient_segments_;
  CacheSegments stage_segments_;
  std::unique_ptr<ReadAheadHelper> read_ahead_;  // null: there is no thread for it
  std::unique_ptr<ScratchFolders> scratch_;      // null: disabled
  ExitLog exits_;
  ReplacementGate replacement_gate_;
  Pools pools_;
  std::unique_ptr<IndexJobs> index_jobs_;

  UsageReader usage_;
};

}  // namespace bulkhead

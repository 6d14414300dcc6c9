#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/os/event_loop.h"
#include "server/supervisor/memory/memory_budget.h"
#include "server/supervisor/pool/replacement_gate.h"
#include "server/supervisor/worker/compartment.h"
#include "server/supervisor/worker/exit_log.h"
#include "server/supervisor/worker/worker_process.h"
#include "server/supervisor/worker/worker_timeouts.h"

namespace bulkhead {

// One index to build.
struct IndexJob {
  internal::v1::BuildIndex request;  // job_id is filled in
  // The output file, owned by the caller and open until on_done. Workers write from offset 0. Bytes
  // after the last record may be left over from a worker that died.
  int fd = -1;
  // The client that named the job's files; jobs of one client share it.
  std::shared_ptr<const void> opening;
  // Reports the worker's progress, on the supervisor's thread.
  std::function<void(uint64_t records, uint64_t bytes_done)> on_progress;
  std::function<void(absl::StatusOr<uint64_t> records)> on_done;
};

// Builds indexes in worker processes, several at once, because files hold untrusted bytes.
//
// - A job whose worker dies, or is stopped (SIGSTOP) for the hang timeout, is retried. It fails
//   when kMaxDeaths workers have ended at it.
// - A worker that reads nothing for the hang timeout is killed, and its job fails. The worker is no
//   longer counted, even if it cannot be reaped.
// - A worker sees one file, so that a file which takes it over can forge no other's index. Only
//   while many files of its client wait does it see up to kMostFiles, all of that client's.
// - Where the budget holds no quota for an index worker, one runs in the place reserved for
//   replacements, and leaves it between two files when a replacement waits. So index work is never
//   refused for lack of memory, unless a worker is stuck in that place.
//
// Lives on the supervisor's thread.
class IndexJobs {
 public:
  static constexpr uint32_t kMaxDeaths = 3;
  // Per worker, while more than kFewFiles files of its client wait. Starting a worker takes as long
  // as indexing thirty small files.
  static constexpr uint32_t kMostFiles = 64;
  static constexpr uint32_t kFewFiles = 16;
  // Limit of killed workers that have not exited, per worker that may run.
  static constexpr uint32_t kMaxStuck = 8;

  // Promises memory for one more worker. UNAVAILABLE: the memory will be free soon. With
  // `end_idle`, pipelines without streams give up their workers for it.
  using ClaimFn = std::function<absl::StatusOr<MemoryClaim>(bool end_idle)>;

  struct Config {
    std::shared_ptr<EventLoop> loop;
    WorkerProgram worker_program;
    uint32_t max_workers = 1;
    PoolTimeouts timeouts;
    ExitLog* exits = nullptr;
    Compartment* compartment = nullptr;
    ReplacementGate* gate = nullptr;
    bool fits_gate = false;  // an index worker fits in the place for a replacement
    ClaimFn claim;
  };
  explicit IndexJobs(Config config) : config_(std::move(config)) { CheckForHangs(); }
  ~IndexJobs() {
    config_.loop->Cancel(start_timer_);
    config_.loop->Cancel(hang_timer_);
  }

  // Queues a job; returns its id.
  uint64_t Add(IndexJob job);
  // Drops a job without calling it back, and kills a worker that works on it. Its descriptor may be
  // closed afterwards.
  void Cancel(uint64_t job_id);

  // Adds the workers, without their memory and CPU time.
  void AppendStatus(v1::GetStatusResponse& response) const;

 private:
  struct Entry {
    uint64_t id = 0;
    IndexJob job;
    uint32_t deaths = 0;
  };
  struct Worker {
    uint64_t id = 0;
    std::unique_ptr<WorkerProcess> process;
    std::unique_ptr<Compartment::Cell> cell;  // made with its first job, whose quota it has
    std::unique_ptr<Entry> entry;             // the current job
    std::shared_ptr<const void> opening;      // whose files it sees; null before the first job
    uint32_t files = 0;
    MemoryClaim memory;     // held until it is reaped; empty in a replacement's place
    int64_t killed_ns = 0;  // when the kill was noticed; 0: not killed
    uint64_t peak_memory_bytes = 0;
    bool greeted = false;  // sent Hello: its program runs
    // Time of the start or of the last progress, and how much it has read.
    int64_t last_progress_ns = 0;
    uint64_t records = 0;
    uint64_t bytes_done = 0;
  };

  void StartWorkers();
  // Like ClaimFn, with `living` other workers. `in_gate`: the worker runs in the gate.
  absl::StatusOr<MemoryClaim> Claim(size_t living, bool& in_gate);
  // False if no process could be made: then the queue waits or has failed.
  bool StartWorker(MemoryClaim memory, bool in_gate);
  // A worker ended before Hello, or could not be started.
  void NoteEarlyExit(absl::StatusCode code, const std::string& message);
  void StartLater(absl::Duration delay);
  void GiveJob(Worker& worker);
  // The next entry that this worker may have.
  std::deque<std::unique_ptr<Entry>>::iterator NextFor(const Worker& worker);
  void End(Worker& worker) {
    worker.memory.MarkReturning();
    worker.process->Stop(absl::Seconds(1));
  }
  // False if the worker must not be given data; it is then killed.
  bool Confine(Worker& worker, uint64_t quota_bytes);
  void OnMessage(Worker& worker, const internal::v1::FromWorker& message);
  void OnProgress(Worker& worker, const internal::v1::IndexProgress& progress);
  void OnExit(uint64_t worker_id, const WorkerEnd& end);
  void CheckForHangs();
  void CheckForHang(Worker& worker, int64_t now_ns);
  // Stops counting a worker that was killed a while ago and has not exited.
  void NoteStuck(Worker& worker, int64_t now_ns);
  // Fails the job because nothing was read for too long.
  void FailHungJob(Worker& worker);
  // The watchdog: catches memory that the worker's own limit does not count.
  void CheckMemory(Worker& worker);
  void FailQueue(const absl::Status& status);
  void Finish(Worker& worker, absl::StatusOr<uint64_t> result);

  const Config config_;
  std::deque<std::unique_ptr<Entry>> queue_;
  std::map<uint64_t, std::unique_ptr<Worker>> workers_;
  uint64_t next_id_ = 1;
  uint32_t early_exits_ = 0;            // consecutive workers that never sent Hello
  EventLoop::TimerId start_timer_ = 0;  // retry after an early exit or for memory; 0: none
  EventLoop::TimerId hang_timer_ = 0;
};

}  // namespace bulkhead

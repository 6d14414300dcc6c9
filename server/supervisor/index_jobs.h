#ifndef BULKHEAD_SERVER_SUPERVISOR_INDEX_JOBS_H_
#define BULKHEAD_SERVER_SUPERVISOR_INDEX_JOBS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/os/event_loop.h"
#include "server/supervisor/compartment.h"
#include "server/supervisor/exit_log.h"
#include "server/supervisor/memory_budget.h"
#include "server/supervisor/replacement_gate.h"
#include "server/supervisor/worker_process.h"
#include "server/supervisor/worker_timeouts.h"

namespace bulkhead {

// One index to build.
struct IndexJob {
  internal::v1::BuildIndex request;  // job_id is filled in
  // Where to: the caller's, open until on_done. Workers write from its beginning, whatever its
  // position; behind what the last one wrote there may be more, of one that died.
  int fd = -1;
  // Whose job it is. Jobs that share it are those of one client, who names their files.
  std::shared_ptr<const void> opening;
  // Called on the supervisor's thread. `records` and `bytes_done` as far as the worker has come.
  std::function<void(uint64_t records, uint64_t bytes_done)> on_progress;
  std::function<void(absl::StatusOr<uint64_t> records)> on_done;
};

// Builds indexes in worker processes, several at once, since files hold untrusted bytes. A job
// whose worker dies, or was stopped (SIGSTOP) for as long as a hang takes, is tried again; one that
// ends kMaxDeaths workers fails. So does one at which nothing was read for that long: its worker is
// killed, and counts no more even if it cannot be reaped. A worker works for one opening and sees
// kMostFiles at most, so that files which take it over can forge few indexes, and none of files
// that their owner did not name.
//
// Memory: where the budget holds no quota for an index worker, one of them runs in the place that
// is kept for replacements, and leaves it between two files when a replacement waits for it. So
// index work is never refused for want of memory, unless a worker is stuck in that place.
//
// Lives on the supervisor's thread.
class IndexJobs {
 public:
  static constexpr uint32_t kMaxDeaths = 3;
  // Of one worker. Starting one takes as long as indexing thirty small files.
  static constexpr uint32_t kMostFiles = 64;
  // Killed workers that do not end, for each that may run; more are not risked.
  static constexpr uint32_t kMaxStuck = 8;

  // Promises memory for one more worker, or says why not; UNAVAILABLE: it will be there soon. With
  // `end_idle` pipelines without streams give up their workers for it.
  using ClaimFn = std::function<absl::StatusOr<MemoryClaim>(bool end_idle)>;

  // `gate`: the place for a replacement; null when it does not hold an index worker.
  IndexJobs(std::shared_ptr<EventLoop> loop, WorkerProgram worker_program, uint32_t max_workers,
            PoolTimeouts timeouts, ExitLog* exits, Compartment* compartment, ReplacementGate* gate,
            ClaimFn claim);
  ~IndexJobs();

  // Queues a job; returns its id.
  uint64_t Add(IndexJob job);
  // Forgets a job without calling it back; a worker that is at it is killed. Its descriptor may be
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
    std::unique_ptr<Compartment::Cell> cell;  // from its first job on, whose quota it has
    std::unique_ptr<Entry> entry;             // what it works on
    std::shared_ptr<const void> opening;      // whose files it sees; null before the first
    uint32_t files = 0;
    MemoryClaim memory;     // until it was reaped; none in a replacement's place
    int64_t killed_ns = 0;  // when it was seen to be killed; 0: it is not
    uint64_t peak_memory_bytes = 0;
    bool greeted = false;  // it said Hello: its program runs
    // When it began, or last read something new; and how much it has read.
    int64_t last_progress_ns = 0;
    uint64_t records = 0;
    uint64_t bytes_done = 0;
  };

  void StartWorkers();
  // Memory for a worker when `living` others live. As ClaimFn; `in_gate`: it holds the gate.
  absl::StatusOr<MemoryClaim> Claim(size_t living, bool& in_gate);
  // False when no process could be made; then the queue waits, or has failed.
  bool StartWorker(MemoryClaim memory, bool in_gate);
  // A worker ended before it could do anything, or was not to be had.
  void NoteEarlyExit(absl::StatusCode code, const std::string& message);
  void StartLater(absl::Duration delay);
  void GiveJob(Worker& worker);
  // The next entry of the queue that this worker may have.
  std::deque<std::unique_ptr<Entry>>::iterator NextFor(const Worker& worker);
  void End(Worker& worker);
  // False when it may not be given data: then it is killed.
  bool Confine(Worker& worker, uint64_t quota_bytes);
  void OnMessage(Worker& worker, const internal::v1::FromWorker& message);
  void OnProgress(Worker& worker, const internal::v1::IndexProgress& progress);
  void OnExit(uint64_t worker_id, const WorkerEnd& end);
  void CheckForHangs();
  void CheckForHang(Worker& worker, int64_t now_ns);
  // It was killed a while ago and has not ended: nobody waits for it any more.
  void NoteStuck(Worker& worker, int64_t now_ns);
  // Its job fails: nothing was read for too long.
  void FailHungJob(Worker& worker);
  // The watchdog: for memory that the worker's own limit does not count.
  void CheckMemory(Worker& worker);
  void FailQueue(const absl::Status& status);
  void Finish(Worker& worker, absl::StatusOr<uint64_t> result);

  const std::shared_ptr<EventLoop> loop_;
  const WorkerProgram worker_program_;
  const uint32_t max_workers_;
  const PoolTimeouts timeouts_;
  ExitLog* const exits_;
  Compartment* const compartment_;
  ReplacementGate* const gate_;
  const ClaimFn claim_;
  std::deque<std::unique_ptr<Entry>> queue_;
  std::map<uint64_t, std::unique_ptr<Worker>> workers_;
  uint64_t next_id_ = 1;
  uint32_t early_exits_ = 0;            // of workers that never said Hello, in a row
  EventLoop::TimerId start_timer_ = 0;  // behind an early exit, or for memory; 0: none
  EventLoop::TimerId hang_timer_ = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_INDEX_JOBS_H_

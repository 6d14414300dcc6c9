#ifndef BULKHEAD_SERVER_SUPERVISOR_WORKER_POOL_H_
#define BULKHEAD_SERVER_SUPERVISOR_WORKER_POOL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/os/event_loop.h"
#include "server/supervisor/exit_log.h"
#include "server/supervisor/stream.h"
#include "server/supervisor/worker_process.h"
#include "server/supervisor/worker_timeouts.h"

namespace bulkhead {

// What the workers of one pipeline are.
struct PipelineConfig {
  // Equal keys mean the same pipeline: its workers are shared.
  std::string key;
  // Short name for logs and the status page.
  std::string name;
  // Serialized internal.v1.PipelineBinding.
  std::string binding;
  uint32_t workers = 1;
  uint32_t threads = 1;
  uint64_t quota_bytes = 0;
  // Filled in by the supervisor: it is the same for all pipelines.
  internal::v1::Sandbox sandbox;
};

// The workers of one pipeline and the streams that they serve: starts them, hands out leases
// round-robin over the streams, replaces workers that die and has their leases done by others.
//
// A death counts against the leases that the worker's threads were at. A lease that was present at
// several is a suspect: it is done alone by a worker that is set apart for it. A worker may have
// been brought to its end by what it did before, by a leak, say; so what convicts a lease, and ends
// its stream and no other, are the deaths of fresh workers that did nothing else. Lives on the
// supervisor's thread.
class WorkerPool {
 public:
  // Deaths at one lease, after which its stream fails: those that made it a suspect, and then those
  // of fresh workers. As many in one place, of workers that had no lease, fail the pool while no
  // other worker is ready.
  static constexpr uint32_t kMaxDeaths = 8;

  WorkerPool(std::shared_ptr<EventLoop> loop, std::string worker_program, PipelineConfig config,
             PoolTimeouts timeouts, ExitLog* exits);
  ~WorkerPool();

  const PipelineConfig& config() const { return config_; }
  bool idle() const { return streams_.empty(); }
  // Broken pools serve nobody any more: their workers could not be bound, or crash in a loop.
  bool broken() const { return !failure_.ok(); }

  // Spawns the workers; the first streams may be added at once.
  void Start();
  void AddStream(std::shared_ptr<Stream> stream);
  // False when the pool has no such stream.
  bool RemoveStream(uint64_t stream_id);
  // Hands planned leases to workers that have room.
  void Dispatch();
  // Ends every stream with `status`.
  void FailStreams(const absl::Status& status);

  // Adds the workers (without their memory and CPU time) and streams, and what the pool has done.
  void AppendStatus(v1::GetStatusResponse& response) const;
  // Adds what the pool has done alone.
  void AppendTotals(v1::GetStatusResponse& response) const;

 private:
  // A lease in a worker's hands; its stream may be gone.
  struct Held {
    uint64_t stream_id = 0;
    uint64_t lease_id = 0;
  };
  // A place for a worker; the process in it changes.
  struct Slot {
    uint32_t index = 0;
    uint32_t generation = 0;
    LeaseTable::WorkerId worker_id = 0;  // of the living process; new for every process
    std::unique_ptr<WorkerProcess> process;
    EventLoop::TimerId restart_timer = 0;
    std::deque<Held> held;  // in the order in which it was given them, and takes them up
    uint64_t samples = 0;
    int64_t last_progress_ns = 0;
    uint64_t leases_given = 0;  // to this process
    uint32_t deaths = 0;        // in this place, since a lease was finished in it
    uint64_t peak_memory_bytes = 0;
    bool bound = false;
    int64_t killed_ns = 0;  // when the hang check killed it; 0: it did not
    bool written_off = false;
  };

  void StartWorker(Slot& slot);
  void OnStartFailed(Slot& slot, const absl::Status& status);
  void OnMessage(Slot& slot, const internal::v1::FromWorker& message);
  void OnBound(Slot& slot);
  void OnFailed(Slot& slot, const internal::v1::Failed& failed);
  void OnExit(Slot& slot, const WorkerEnd& end);
  void SendBinding(Slot& slot);
  void SendStream(Slot& slot, const Stream& stream);
  bool CanTakeLease(const Slot& slot) const;
  bool GiveLease(Slot& slot);
  // Sets a worker apart for the next suspect, or gives it to the one that is.
  void GiveSuspect();
  Slot* SlotToSetApart() const;
  void SendLease(Slot& slot, const internal::v1::Lease& lease);
  void OnLeaseDone(Slot& slot, const internal::v1::LeaseDone& done);
  void OnLeaseFailed(Slot& slot, const internal::v1::LeaseFailed& failed);
  // One of the slot's leases was decided, whether or not its stream still lives. False when the
  // worker has no such lease.
  bool TakeBack(Slot& slot, uint64_t stream_id, uint64_t lease_id);
  std::shared_ptr<Stream> FindStream(uint64_t stream_id) const;
  // Counts a death against the leases that the slot's threads were at, and ends the streams for
  // which that was one too many. Returns what the worker was at, for people; empty: nothing.
  std::string BlameLeases(Slot& slot, const std::string& reason);
  // A worker died without a lease, or could not be started.
  void NoteIdleDeath(const Slot& slot, absl::StatusCode code, const std::string& message);
  void RestartLater(Slot& slot);
  void RecordExit(const Slot& slot, const WorkerEnd& end, uint32_t leases_redone) const;
  // The error of a stream whose lease ends worker after worker.
  absl::Status CrashLoop(uint32_t deaths, const std::string& reason, const std::string& work) const;
  void FailAll(const absl::Status& status);
  void CheckForHangs();
  void CheckForHang(Slot& slot, int64_t now_ns);

  const std::shared_ptr<EventLoop> loop_;
  const std::string worker_program_;
  const PipelineConfig config_;
  const PoolTimeouts timeouts_;
  ExitLog* const exits_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::shared_ptr<Stream>> streams_;
  size_t next_stream_ = 0;  // round robin
  EventLoop::TimerId hang_timer_ = 0;
  absl::Status failure_;
  Slot* set_apart_ = nullptr;  // for a suspect
  uint32_t idle_deaths_ = 0;   // of workers without a lease, since a lease was finished
  uint64_t samples_ = 0;
  uint64_t past_substitutions_ = 0;  // of streams that are gone
  uint64_t leases_redone_ = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_WORKER_POOL_H_

#ifndef BULKHEAD_SERVER_SUPERVISOR_WORKER_POOL_H_
#define BULKHEAD_SERVER_SUPERVISOR_WORKER_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/os/event_loop.h"
#include "server/supervisor/exit_log.h"
#include "server/supervisor/stream.h"
#include "server/supervisor/worker_process.h"

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
};

// How long the pool waits for what. Tests shorten them.
struct PoolTimeouts {
  absl::Duration hang = absl::Seconds(30);   // a worker with leases that finishes none is killed
  absl::Duration reap = absl::Seconds(10);   // a killed worker that does not end is written off
  absl::Duration start = absl::Seconds(60);  // from spawn to bound
  absl::Duration first_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(10);
  absl::Duration stop_grace = absl::Seconds(2);
};

// The workers of one pipeline and the streams that they serve: starts them, hands out leases
// round-robin over the streams, replaces workers that die and has their leases done by others.
// Lives on the supervisor's thread.
class WorkerPool {
 public:
  // Deaths without a finished lease in between, after which the pool's streams fail.
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

  // Adds the workers and streams, and the living workers' CPU time, to `response`.
  void AppendStatus(v1::GetStatusResponse& response);
  uint64_t samples_produced() const { return samples_; }
  uint64_t leases_redone() const { return leases_redone_; }

 private:
  // A place for a worker; the process in it changes.
  struct Slot {
    uint32_t index = 0;
    uint32_t generation = 0;
    LeaseTable::WorkerId worker_id = 0;  // of the living process; new for every process
    std::unique_ptr<WorkerProcess> process;
    EventLoop::TimerId restart_timer = 0;
    uint32_t leases = 0;
    uint64_t samples = 0;
    int64_t last_progress_ns = 0;
    uint64_t peak_memory_bytes = 0;
    bool bound = false;
    int64_t killed_ns = 0;  // when the hang check killed it; 0: it did not
    bool written_off = false;
  };

  void StartWorker(Slot& slot);
  void OnMessage(Slot& slot, const internal::v1::FromWorker& message);
  void OnBound(Slot& slot);
  void OnExit(Slot& slot, const ProcessExit& exit, const std::string& reason);
  void SendBinding(Slot& slot);
  void SendStream(Slot& slot, const Stream& stream);
  bool GiveLease(Slot& slot);
  void OnLeaseDone(Slot& slot, const internal::v1::LeaseDone& done);
  void OnLeaseFailed(Slot& slot, const internal::v1::LeaseFailed& failed);
  // One of the slot's leases was decided, whether or not its stream still lives.
  void NoteProgress(Slot& slot);
  std::shared_ptr<Stream> FindStream(uint64_t stream_id) const;
  v1::WorkerExit RecordExit(const Slot& slot, const ProcessExit& exit, const std::string& reason,
                            uint32_t leases_redone) const;
  absl::Duration Backoff() const;
  // The error of streams whose workers die one after the other.
  absl::Status CrashLoop(const std::string& reason, const std::string& work) const;
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
  uint32_t deaths_ = 0;  // since the last finished lease
  uint64_t samples_ = 0;
  uint64_t leases_redone_ = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_WORKER_POOL_H_

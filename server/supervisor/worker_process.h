#ifndef BULKHEAD_SERVER_SUPERVISOR_WORKER_PROCESS_H_
#define BULKHEAD_SERVER_SUPERVISOR_WORKER_PROCESS_H_

#include <csignal>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/os/event_loop.h"
#include "server/os/process/child_process.h"
#include "server/os/sockets/packet_socket.h"
#include "server/supervisor/worker_handle.h"
#include "server/supervisor/worker_program.h"

namespace bulkhead {

// How a worker ended.
struct WorkerEnd {
  ProcessExit exit;
  v1::ExitCause cause = v1::EXIT_CAUSE_UNSPECIFIED;
  std::string reason;    // why, for people: the first cause wins
  bool as_told = false;  // it was told to end, and did so by itself
};

// One living bulkhead-worker: its process, its socket, its phase. Lives on an EventLoop's thread.
//
// Life: Start → on_message … → on_exit, once, after every message that the worker had sent was
// handed over and the process was reaped. From then on it holds nothing that the worker could
// touch; delete it (on_exit itself must not: it is called from inside; post the deletion to the
// loop).
class WorkerProcess final : public WorkerHandle {
 public:
  struct Callbacks {
    std::function<void(const internal::v1::FromWorker&)> on_message;
    std::function<void(const WorkerEnd&)> on_exit;
    // Instead of on_exit, when the handle was destroyed before: the process was reaped. What the
    // owner owned is gone by then.
    std::function<void(const ProcessExit&)> on_orphan_exit;
  };

  // What a worker may say in one message: its longest are errors.
  static constexpr uint64_t kMaxMessageFromWorker = uint64_t{1} << 20;
  // Messages handed over in one round of the loop, so that a talkative worker holds up nobody.
  static constexpr int kMessagesPerRound = 64;
  // What may wait for a worker that does not read.
  static constexpr size_t kMaxQueuedMessages = 16384;
  static constexpr size_t kMaxQueuedBytes = size_t{64} << 20;

  // Spawns `program` (the loop's thread must be the caller) and watches it.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(EventLoop& loop,
                                                              const WorkerProgram& program,
                                                              Callbacks callbacks);
  // Kills a process that still runs; the loop reaps it.
  ~WorkerProcess() override;
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const override { return child_.pid(); }
  // A worker whose process has ended counts as stopping until its last words were handed over.
  WorkerPhase phase() const override {
    return ended_ && phase_ < WorkerPhase::kStopping ? WorkerPhase::kStopping : phase_;
  }

  using WorkerHandle::Send;
  void Send(const internal::v1::ToWorker& message, const std::vector<int>& fds) override;
  void Stop(absl::Duration grace) override;
  void Kill(v1::ExitCause cause, const std::string& reason) override;
  void AskForStacks() const override { child_.Signal(SIGQUIT); }
  bool MarkBound() override { return Apply(WorkerEvent::kBound) && phase() == WorkerPhase::kReady; }

 private:
  WorkerProcess(EventLoop& loop, ChildProcess child, PacketSocket socket, Callbacks callbacks);

  // False when the event may not come in this phase: then the worker is killed.
  bool Apply(WorkerEvent event);
  struct Outgoing {
    std::string bytes;
    std::vector<UniqueFd> fds;
  };

  // Hands over what the worker sent: up to `max_messages`, or until nothing is there yet.
  void Receive(int max_messages);
  void HandOver(const std::string& bytes);
  // Sends what waits, as far as the socket takes it.
  void SendQueued();
  void Enqueue(std::string bytes, const std::vector<int>& fds);
  // What Send made of a packet, when it did not go out and will not.
  void SendFailed(const absl::Status& status);
  void OnProcessEnd();

  EventLoop& loop_;
  ChildProcess child_;
  PacketSocket socket_;
  Callbacks callbacks_;
  WorkerPhase phase_ = WorkerPhase::kStarting;
  v1::ExitCause cause_ = v1::EXIT_CAUSE_UNSPECIFIED;  // first cause of its end
  std::string reason_;
  EventLoop::TimerId timer_ = 0;  // of Stop
  bool socket_open_ = true;
  bool told_to_end_ = false;
  bool ended_ = false;  // and reaped
  std::deque<Outgoing> queue_;
  size_t queued_bytes_ = 0;
};

// What an exit means, for people: "killed by signal 9", "out of memory under its quota", "exited
// with code 3". `told`: it had been told to end.
std::string DescribeExit(const ProcessExit& exit, bool told);
// The cause that an exit by itself points to.
v1::ExitCause CauseOf(const ProcessExit& exit, bool told);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_WORKER_PROCESS_H_

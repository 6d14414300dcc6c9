#pragma once

#include <csignal>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/os/event_loop.h"
#include "server/os/process/child_process.h"
#include "server/os/sockets/packet_socket.h"
#include "server/supervisor/worker/worker_handle.h"
#include "server/supervisor/worker/worker_program.h"

namespace bulkhead {

// How a worker ended.
struct WorkerEnd {
  ProcessExit exit;
  v1::ExitCause cause = v1::EXIT_CAUSE_UNSPECIFIED;
  std::string reason;    // human-readable; the first cause wins
  bool as_told = false;  // it exited after it was asked to
};

// One living bulkhead-worker: its process, its socket, its phase. Lives on an EventLoop's thread.
//
// Life: Start → on_message … → on_exit, once, after the process was reaped and all its messages
// were delivered. It then holds nothing that the worker could touch. Delete it after on_exit, not
// in it: post the deletion to the loop.
class WorkerProcess final : public WorkerHandle {
 public:
  struct Callbacks {
    std::function<void(const internal::v1::FromWorker&)> on_message;
    std::function<void(const WorkerEnd&)> on_exit;
    // Called instead of on_exit if the handle was destroyed before the process was reaped. The
    // handle's owner may be gone.
    std::function<void(const ProcessExit&)> on_orphan_exit;
  };

  // Limit of one message from a worker; messages with errors are the longest.
  static constexpr uint64_t kMaxMessageFromWorker = uint64_t{1} << 20;
  // Messages delivered in one round of the loop, so that one worker cannot hold up the others.
  static constexpr int kMessagesPerRound = 64;
  // Limits of what is queued for a worker that does not read.
  static constexpr size_t kMaxQueuedMessages = 16384;
  static constexpr size_t kMaxQueuedBytes = size_t{64} << 20;

  // Spawns `program` and watches it. Must be called on the loop's thread.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(EventLoop& loop,
                                                              const WorkerProgram& program,
                                                              Callbacks callbacks);
  // Kills a process that still runs; the loop reaps it.
  ~WorkerProcess() override;
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const override { return child_.pid(); }
  // A worker whose process has ended counts as stopping until its last messages are delivered.
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
  WorkerProcess(EventLoop& loop, ChildProcess child, PacketSocket socket, Callbacks callbacks)
      : loop_(loop),
        child_(std::move(child)),
        socket_(std::move(socket)),
        callbacks_(std::move(callbacks)) {}

  // Changes the phase. Kills the worker and returns false if the event is not allowed now.
  bool Apply(WorkerEvent event);
  struct Outgoing {
    std::string bytes;
    std::vector<UniqueFd> fds;
  };

  // Delivers up to `max_messages` messages that have arrived.
  void Receive(int max_messages);
  void HandOver(const std::string& bytes);
  // Sends queued messages as far as the socket takes them.
  void SendQueued();
  void Enqueue(std::string bytes, const std::vector<int>& fds);
  // Handles the failure of a packet that will not be sent.
  void SendFailed(const absl::Status& status);
  void OnProcessEnd();

  EventLoop& loop_;
  ChildProcess child_;
  PacketSocket socket_;
  Callbacks callbacks_;
  WorkerPhase phase_ = WorkerPhase::kStarting;
  v1::ExitCause cause_ = v1::EXIT_CAUSE_UNSPECIFIED;  // the first cause
  std::string reason_;
  EventLoop::TimerId timer_ = 0;  // for Stop
  bool socket_open_ = true;
  bool told_to_end_ = false;
  bool ended_ = false;  // ended and reaped
  std::deque<Outgoing> queue_;
  size_t queued_bytes_ = 0;
};

// An exit in words: "killed by signal 9", "out of memory under its quota", "exited with code 3".
// `told`: the worker had been asked to end.
std::string DescribeExit(const ProcessExit& exit, bool told);
// The cause that the exit status alone suggests.
v1::ExitCause CauseOf(const ProcessExit& exit, bool told);

}  // namespace bulkhead

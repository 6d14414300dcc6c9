#ifndef BULKHEAD_SERVER_SUPERVISOR_WORKER_PROCESS_H_
#define BULKHEAD_SERVER_SUPERVISOR_WORKER_PROCESS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/os/child_process.h"
#include "server/os/event_loop.h"
#include "server/os/packet_socket.h"
#include "server/supervisor/worker_life.h"

namespace bulkhead {

// One living bulkhead-worker: its process, its socket, its phase. Lives on an EventLoop's thread.
//
// Life: Start → on_message … → on_exit, once, after every message that the worker had sent was
// handed over and the process was reaped. From then on it holds nothing that the worker could
// touch; delete it (on_exit itself must not: it is called from inside; post the deletion to the
// loop).
class WorkerProcess {
 public:
  struct Callbacks {
    std::function<void(const internal::v1::FromWorker&)> on_message;
    // `reason` says why it ended, for people: the first cause wins.
    std::function<void(const ProcessExit&, const std::string& reason)> on_exit;
  };

  // Spawns `program` (the loop's thread must be the caller) and watches it.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(EventLoop& loop,
                                                              const std::string& program,
                                                              Callbacks callbacks);
  // Kills a process that still runs; the loop reaps it.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return child_.pid(); }
  WorkerPhase phase() const { return phase_; }

  // Sends a message; never blocks. A worker that does not read its messages, or has gone, is
  // killed: its exit follows.
  void Send(const internal::v1::ToWorker& message, const std::vector<int>& fds = {});
  // Asks the worker to end; it is terminated, then killed, when it does not within `grace`.
  void Stop(absl::Duration grace);
  // Kills it at once; `reason` is what its exit will report.
  void Kill(const std::string& reason);
  // The worker reported that it is bound.
  void MarkBound() { Apply(WorkerEvent::kBound); }

 private:
  WorkerProcess(EventLoop& loop, ChildProcess child, PacketSocket socket, Callbacks callbacks);

  // False when the event may not come in this phase: then the worker is killed.
  bool Apply(WorkerEvent event);
  // Hands over what the worker sent; stops at the first packet that is not there yet.
  void ReceiveAll();
  void OnProcessEnd();

  EventLoop& loop_;
  ChildProcess child_;
  PacketSocket socket_;
  Callbacks callbacks_;
  WorkerPhase phase_ = WorkerPhase::kStarting;
  std::string reason_;            // first cause of its end
  EventLoop::TimerId timer_ = 0;  // of Stop
  bool socket_open_ = true;
};

// What an exit means, for people: "killed by signal 9", "out of memory under its quota", "exited
// with code 3".
std::string DescribeExit(const ProcessExit& exit);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_WORKER_PROCESS_H_

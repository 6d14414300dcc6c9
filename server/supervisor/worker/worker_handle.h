#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/os/process/child_process.h"
#include "server/supervisor/worker/worker_life.h"

namespace bulkhead {

// A worker process as its pool sees it: WorkerProcess, or a test's stand-in. Lives on the
// supervisor's thread.
class WorkerHandle {
 public:
  virtual ~WorkerHandle() = default;
  virtual pid_t pid() const = 0;
  virtual WorkerPhase phase() const = 0;
  // Sends a message, or queues it while the socket is full; never blocks. A worker is killed if too
  // much is queued for it.
  virtual void Send(const internal::v1::ToWorker& message, const std::vector<int>& fds) = 0;
  void Send(const internal::v1::ToWorker& message) { Send(message, {}); }
  // Asks the worker to end; terminates, then kills it, if it does not within `grace`.
  virtual void Stop(absl::Duration grace) = 0;
  // Kills it at once. Its exit reports `cause` and `reason`.
  virtual void Kill(v1::ExitCause cause, const std::string& reason) = 0;
  // Asks it to write its stacks (FlightSnapshot::tells_stacks).
  virtual void AskForStacks() const = 0;
  // The worker reported that it is bound. False if it is being ended, or is killed because the
  // report is invalid now.
  virtual bool MarkBound() = 0;
};

}  // namespace bulkhead

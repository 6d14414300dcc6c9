#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "server/supervisor/pool/memory_watch.h"
#include "server/supervisor/pool/pool_part.h"
#include "server/supervisor/worker/worker_process.h"

namespace bulkhead {

// Starts the worker processes of one pipeline, each in a cell with its quota, and tells each what
// it is bound to. Lives on the supervisor's thread.
class WorkerStarter : PoolPart {
 public:
  struct Callbacks {
    std::function<void(PoolWorker&, const internal::v1::FromWorker&)> on_message;
    std::function<void(PoolWorker&, const WorkerEnd&)> on_exit;
  };

  WorkerStarter(const PoolPart& pool, const MemoryWatch& memory, Callbacks callbacks)
      : PoolPart(pool), memory_(memory), callbacks_(std::move(callbacks)) {}

  // Starts another worker for a place. Errors: no process, descriptor or cgroup is available.
  absl::StatusOr<std::unique_ptr<PoolWorker>> Start(Slot& slot) const;

 private:
  void Bind(PoolWorker& worker) const;
  // From now on the worker is part of traces.
  void Trace(PoolWorker& worker) const;

  const MemoryWatch& memory_;  // decides whether the heap uses huge pages
  const Callbacks callbacks_;
};

}  // namespace bulkhead

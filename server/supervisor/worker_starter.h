#ifndef BULKHEAD_SERVER_SUPERVISOR_WORKER_STARTER_H_
#define BULKHEAD_SERVER_SUPERVISOR_WORKER_STARTER_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "server/supervisor/crew.h"
#include "server/supervisor/memory_watch.h"
#include "server/supervisor/pipeline_config.h"
#include "server/supervisor/pool_context.h"
#include "server/supervisor/worker_process.h"

namespace bulkhead {

// Starts the worker processes of one pipeline: each in a cell of its own, with its quota, and told
// at once what it is bound to. Lives on the supervisor's thread.
class WorkerStarter {
 public:
  struct Callbacks {
    std::function<void(PoolWorker&, const internal::v1::FromWorker&)> on_message;
    std::function<void(PoolWorker&, const WorkerEnd&)> on_exit;
  };

  WorkerStarter(const PoolContext& context, const PipelineConfig& config, const MemoryWatch& memory,
                Callbacks callbacks)
      : context_(context), config_(config), memory_(memory), callbacks_(std::move(callbacks)) {}

  // One more worker for a place. Errors: no process, descriptor or cgroup is to be had.
  absl::StatusOr<std::unique_ptr<PoolWorker>> Start(Slot& slot) const;

 private:
  void Bind(PoolWorker& worker) const;

  const PoolContext& context_;
  const PipelineConfig& config_;
  const MemoryWatch& memory_;  // who fills memory fast gets it in large pages
  const Callbacks callbacks_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_WORKER_STARTER_H_

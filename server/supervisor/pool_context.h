#ifndef BULKHEAD_SERVER_SUPERVISOR_POOL_CONTEXT_H_
#define BULKHEAD_SERVER_SUPERVISOR_POOL_CONTEXT_H_

#include <functional>
#include <memory>

#include "bulkhead/internal/v1/worker.pb.h"
#include "server/os/event_loop.h"
#include "server/supervisor/cache_segments.h"
#include "server/supervisor/compartment.h"
#include "server/supervisor/exit_log.h"
#include "server/supervisor/memory_budget.h"
#include "server/supervisor/recycle_policy.h"
#include "server/supervisor/replacement_gate.h"
#include "server/supervisor/scratch_folders.h"
#include "server/supervisor/worker_program.h"
#include "server/supervisor/worker_timeouts.h"

namespace bulkhead {

class WorkerPool;

// What every pool of a service has in common.
struct PoolContext {
  std::shared_ptr<EventLoop> loop;
  WorkerPrograms programs;
  PoolTimeouts timeouts;
  RecycleConfig recycle;
  ExitLog* exits = nullptr;
  ReplacementGate* gate = nullptr;
  Compartment* compartment = nullptr;
  // What every worker enters before it sees data.
  internal::v1::Sandbox sandbox;
  // Where the workers' seek entries are kept, and what their cache stages keep; null: nowhere.
  CacheSegments* seek_segments = nullptr;
  CacheSegments* stage_segments = nullptr;
  // Folders of workers with user code; null: they get none.
  ScratchFolders* scratch = nullptr;
  // What the pool's workers were promised: let go of when the last of them was reaped, also of
  // those that the pool leaves behind when it is destroyed. May be null.
  std::shared_ptr<MemoryClaim> memory;
  MemoryBudget* budget = nullptr;  // for workers beside those
  // A parked pool has work again.
  std::function<void(WorkerPool*)> on_wanted;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_POOL_CONTEXT_H_

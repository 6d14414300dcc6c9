#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "bulkhead/internal/v1/worker.pb.h"
#include "server/os/event_loop.h"
#include "server/os/files/io_thread.h"
#include "server/os/files/read_ahead.h"
#include "server/supervisor/memory/memory_budget.h"
#include "server/supervisor/memory/recycle_policy.h"
#include "server/supervisor/pool/cache_segments.h"
#include "server/supervisor/pool/replacement_gate.h"
#include "server/supervisor/trace/tracer.h"
#include "server/supervisor/worker/compartment.h"
#include "server/supervisor/worker/exit_log.h"
#include "server/supervisor/worker/scratch_folders.h"
#include "server/supervisor/worker/worker_program.h"
#include "server/supervisor/worker/worker_timeouts.h"

namespace bulkhead {

class WorkerPool;

// What all pools of a service share.
struct PoolContext {
  std::shared_ptr<EventLoop> loop;
  WorkerPrograms programs;
  PoolTimeouts timeouts;
  RecycleConfig recycle;
  ExitLog* exits = nullptr;
  ReplacementGate* gate = nullptr;
  Compartment* compartment = nullptr;
  // Every worker enters it before it sees data.
  internal::v1::Sandbox sandbox;
  // The workers' caches, by kind; null: disabled.
  std::array<CacheSegments*, internal::v1::CacheKind_ARRAYSIZE> segments{};
  // Reads files ahead for the workers; null: they do it themselves.
  const ReadAheadHelper* read_ahead = nullptr;
  // Folders of workers with user code; null: disabled.
  ScratchFolders* scratch = nullptr;
  // The memory promised to the pool's workers; may be null. Released when the last of them is
  // reaped, including those that a destroyed pool leaves behind.
  std::shared_ptr<MemoryClaim> memory;
  MemoryBudget* budget = nullptr;  // for further workers
  // For a group that would share batches. Later than this call, workers that tuning added and those
  // of pipelines without streams end, if what is asked for fits then.
  std::function<void(const MemoryBudget::Demand&)> make_room;
  // A parked pool has work again.
  std::function<void(WorkerPool*)> on_wanted;
  std::shared_ptr<Tracer> tracer;  // null: workers are never traced
  // For streams that share batches: a thread that copies them, and how many each group keeps; 0:
  // nothing is shared.
  std::shared_ptr<IoThread> copier;
  uint32_t share_window = 0;
  std::function<uint64_t()> new_stream_id;
};

}  // namespace bulkhead

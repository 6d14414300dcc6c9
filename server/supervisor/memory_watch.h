#ifndef BULKHEAD_SERVER_SUPERVISOR_MEMORY_WATCH_H_
#define BULKHEAD_SERVER_SUPERVISOR_MEMORY_WATCH_H_

#include <cstdint>

#include "absl/time/time.h"
#include "server/os/memory/process_memory.h"
#include "server/supervisor/crew.h"
#include "server/supervisor/pipeline_config.h"
#include "server/supervisor/pool_context.h"

namespace bulkhead {

// Looks at what a pool's workers hold of their quotas, and kills those that hold more. Lives on the
// supervisor's thread.
class MemoryWatch {
 public:
  MemoryWatch(const PoolContext& context, const PipelineConfig& config)
      : context_(context), config_(config) {}

  // Reads what a worker holds. Without work nothing grows, so one that has been idle since it was
  // read is read once a second.
  void Look(PoolWorker& worker, Slot& slot, int64_t now_ns);
  // Judges what was read.
  void Note(PoolWorker& worker, Slot& slot, const ProcessMemory& memory, int64_t now_ns);
  // Between looks at workers that have work.
  absl::Duration Interval(int64_t now_ns) const;
  // A worker met its quota sooner than it was seen to: looks more often for a while.
  void LookMoreOften(int64_t now_ns);
  // Some worker's memory grew fast a moment ago.
  bool IsFast(int64_t now_ns) const { return now_ns < fast_until_ns_; }

 private:
  // Whether it would fill the quota in fewer looks than it takes to see that in time.
  bool GrowsFast(const WorkerMemory& memory) const;
  void CheckScratch(PoolWorker& worker) const;

  const PoolContext& context_;
  const PipelineConfig& config_;
  int64_t fast_until_ns_ = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_MEMORY_WATCH_H_

#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "server/os/memory/process_memory.h"
#include "server/supervisor/pool/pool_part.h"

namespace bulkhead {

// Measures how much of its quota each worker of a pool holds, and kills workers above their quota.
// Lives on the supervisor's thread.
class MemoryWatch : PoolPart {
 public:
  explicit MemoryWatch(const PoolPart& pool) : PoolPart(pool) {}

  // Reads what a worker holds. A worker idle since the last reading does not grow, and is read once
  // a second.
  void Look(PoolWorker& worker, Slot& slot, int64_t now_ns);
  // Judges a reading.
  void Note(PoolWorker& worker, Slot& slot, const ProcessMemory& memory, int64_t now_ns);
  // Whether too little is known of its growth to wait for the next look: then it is looked at after
  // each lease, but at most once a millisecond, since a slope over few samples is mostly noise.
  bool IsYoung(const PoolWorker& worker, int64_t now_ns) const;
  // Interval of the looks at busy workers.
  absl::Duration Interval(int64_t now_ns) const;
  // A worker reached its quota before a look noticed: looks are more frequent for a while.
  void LookMoreOften(int64_t now_ns);
  // Whether a worker's memory has grown fast recently.
  bool IsFast(int64_t now_ns) const { return now_ns < fast_until_ns_; }

 private:
  // Whether its growth could fill the quota in too few looks to react.
  bool GrowsFast(const WorkerMemory& memory) const;
  void CheckScratch(PoolWorker& worker) const;

  int64_t fast_until_ns_ = 0;
};

}  // namespace bulkhead

#pragma once

#include <cstdint>
#include <vector>

#include "server/arena/flight_recorder.h"
#include "server/os/memory/process_memory.h"
#include "server/supervisor/memory/memory_growth.h"

namespace bulkhead {

// What one worker holds of its quota at each look, and which of its samples took it. Pure; used by
// one thread.
class WorkerMemory {
 public:
  // `quota_bytes` 0: no quota.
  WorkerMemory(uint32_t threads, uint64_t quota_bytes)
      : quota_bytes_(quota_bytes), at_sample_(threads) {}

  // RLIMIT_DATA of the bound worker; 0: unknown, so only resident memory counts.
  void SetDataLimit(uint64_t bytes) { data_limit_bytes_ = bytes; }
  // Notes a look at `now_ns`. `mapped_bytes` of shared memory are not the worker's own. Returns
  // what it holds.
  uint64_t Note(const ProcessMemory& memory, uint64_t mapped_bytes, const FlightSnapshot& flight,
                int64_t now_ns);

  // Bytes that the current sample of that thread has added to the worker's memory so far.
  uint64_t GrownBy(const FlightSnapshot& flight, size_t thread) const;
  // Whether one current sample took more than a quarter of the quota.
  bool IsOneSamplesDoing(const FlightSnapshot& flight) const;

  MemoryGrowth& growth() { return growth_; }
  const MemoryGrowth& growth() const { return growth_; }
  double BytesPerSample() const { return growth_.BytesPerSample(quota_bytes_); }
  double LikelyBytesPerSample() const { return growth_.LikelyBytesPerSample(quota_bytes_); }
  uint64_t peak_bytes() const { return peak_bytes_; }
  int64_t looked_ns() const { return looked_ns_; }

 private:
  // A thread's sample at the last look, and the memory before that sample.
  struct AtSample {
    int64_t began_ns = 0;
    uint64_t used_before = 0;
  };

  const uint64_t quota_bytes_;
  uint64_t data_limit_bytes_ = 0;
  MemoryGrowth growth_;
  std::vector<AtSample> at_sample_;  // by thread
  uint64_t peak_bytes_ = 0;          // held
  int64_t looked_ns_ = 0;
};

}  // namespace bulkhead

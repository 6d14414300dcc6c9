#ifndef BULKHEAD_SERVER_SUPERVISOR_POOL_WORKER_H_
#define BULKHEAD_SERVER_SUPERVISOR_POOL_WORKER_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/cache/segment_folder.h"
#include "server/supervisor/compartment.h"
#include "server/supervisor/cpu_share.h"
#include "server/supervisor/flight_reader.h"
#include "server/supervisor/lease_table.h"
#include "server/supervisor/memory_budget.h"
#include "server/supervisor/scratch_folders.h"
#include "server/supervisor/stage_times.h"
#include "server/supervisor/worker_handle.h"
#include "server/supervisor/worker_memory.h"

namespace bulkhead {

// Between two times of MonotonicNanos; zero where `to_ns` is the earlier one.
inline absl::Duration Between(int64_t from_ns, int64_t to_ns) {
  return absl::Nanoseconds(std::max<int64_t>(0, to_ns - from_ns));
}

// One worker process of a pool, with all that its pool knows of it. Owned by the pool, in a place
// or as a replacement under way; lives on the supervisor's thread.
struct PoolWorker {
  // A lease in the worker's hands; its stream may be gone.
  struct Held {
    uint64_t stream_id = 0;
    uint64_t lease_id = 0;
    uint32_t samples = 0;
    bool shared = false;  // several of the worker's threads are at it
  };

  LeaseTable::WorkerId id = 0;  // unique over all pools
  uint32_t slot = 0;            // its place
  uint32_t generation = 0;
  std::unique_ptr<WorkerHandle> process;  // null only while it is being deleted
  std::unique_ptr<Compartment::Cell> cell;
  std::shared_ptr<ScratchFolders::Folder> scratch;  // null: it has none
  FlightReader flight;
  std::deque<Held> held;  // in the order in which it was given them, and takes them up
  uint64_t samples = 0;   // of leases that it has finished
  uint64_t leases_given = 0;
  uint64_t samples_given = 0;  // of them
  uint64_t samples_seen = 0;   // those that were done when its memory was last looked at
  bool bound = false;
  bool written_off = false;

  absl::Time started;
  int64_t spawned_ns = 0;
  int64_t hello_ns = 0;
  int64_t bound_ns = 0;
  int64_t warm_ns = 0;  // 0: it was never asked to warm up
  int64_t last_progress_ns = 0;
  int64_t killed_ns = 0;  // when the hang check killed it; 0: it did not
  // Its threads that hung then, as HungThreads; empty: none did.
  std::vector<int64_t> hung_since_ns;
  // Of a worker of Python stages: where it writes the stacks of its threads when it is asked to,
  // and what has come of it. Not open: it is not asked.
  UniqueFd stacks_fd;
  int64_t stacks_asked_ns = 0;
  std::string stacks_dump;
  std::string stack;  // of the thread that hangs, for people

  // What its process may hold of the memory budget, beside its part of the pool's quotas: until it
  // was reaped, also when the pool is gone by then.
  struct Claims {
    MemoryClaim quota;  // of one that was written off in a replacement
    // The service's place for a replacement, of such a one for which the budget holds no quota.
    std::shared_ptr<const void> place;
    // Arenas that it may have mapped, by stream: until it says that it has not.
    struct Mapped {
      uint64_t bytes = 0;
      std::shared_ptr<const void> writer;
    };
    std::map<uint64_t, Mapped> mapped;
  };
  std::shared_ptr<Claims> claims = std::make_shared<Claims>();
  // Of each kind of cache: the newest segment that it was told of, and the one that it writes to,
  // or will as soon as it is bound (null: none).
  struct Segments {
    uint64_t told = 0;
    std::shared_ptr<const SegmentFolder::Segment> written;
    bool was_sent = false;  // the one that it writes to
  };
  std::array<Segments, internal::v1::CacheKind_ARRAYSIZE> segments{};
  bool rehearsed = false;  // produced samples for its warm-up
  WorkerMemory memory;
  StageTimes stage_times;
  CpuShare cpu_share;
  // What ProgressWatch::IsRestless saw last; negative: nothing yet.
  double cpu_seconds_at_rest = -1;
  bool runnable_at_rest = false;

  PoolWorker(FlightReader flight_reader, uint32_t threads, uint64_t quota_bytes)
      : flight(std::move(flight_reader)), memory(threads, quota_bytes), cpu_share(threads) {}

  // Whether it has finished leases since its memory was looked at.
  bool is_unseen() const { return samples_given - held_samples() != samples_seen; }
  bool is_ready() const { return bound && process->phase() == WorkerPhase::kReady; }
  uint64_t held_samples() const {
    uint64_t sum = 0;
    for (const Held& lease : held) sum += lease.samples;
    return sum;
  }
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_POOL_WORKER_H_

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/arena/note.h"
#include "server/base/rate_limit.h"
#include "server/cache/segment_folder.h"
#include "server/supervisor/leases/lease_table.h"
#include "server/supervisor/memory/memory_budget.h"
#include "server/supervisor/memory/worker_memory.h"
#include "server/supervisor/verdict/worker_curves.h"
#include "server/supervisor/worker/compartment.h"
#include "server/supervisor/worker/cpu_share.h"
#include "server/supervisor/worker/flight_reader.h"
#include "server/supervisor/worker/scratch_folders.h"
#include "server/supervisor/worker/stage_times.h"
#include "server/supervisor/worker/worker_handle.h"
#include "server/supervisor/worker/worker_trace.h"

namespace bulkhead {

// The time from `from_ns` to `to_ns` (MonotonicNanos); zero if `to_ns` is earlier.
inline absl::Duration Between(int64_t from_ns, int64_t to_ns) {
  return absl::Nanoseconds(std::max<int64_t>(0, to_ns - from_ns));
}

// One worker process of a pool, and what the pool knows of it. Owned by the pool, in a place or in
// a replacement. Lives on the supervisor's thread.
struct PoolWorker {
  // A lease that the worker holds; its stream may be gone.
  struct Held {
    uint64_t stream_id = 0;
    uint64_t lease_id = 0;
    uint32_t samples = 0;
    bool shared = false;  // several of the worker's threads work on it
  };

  LeaseTable::WorkerId id = 0;  // unique over all pools
  uint32_t slot = 0;            // its place
  uint32_t generation = 0;
  std::unique_ptr<WorkerHandle> process;  // null only during deletion
  std::unique_ptr<Compartment::Cell> cell;
  std::shared_ptr<ScratchFolders::Folder> scratch;  // null: it has no folder
  FlightReader flight;
  std::unique_ptr<WorkerTrace> trace;  // null: nobody takes traces
  std::deque<Held> held;               // in the order of assignment, which is the order of work
  uint64_t samples = 0;                // in its finished leases
  uint64_t leases_given = 0;
  uint64_t samples_given = 0;          // of them
  uint64_t samples_seen = 0;           // samples done when its memory was last read
  std::set<std::string> code_at_bind;  // the user files that it had loaded by then
  uint64_t code_files = 0;             // the number of user files that it has reported
  bool bound = false;
  bool written_off = false;

  absl::Time started;
  int64_t spawned_ns = 0;
  int64_t hello_ns = 0;
  int64_t bound_ns = 0;
  int64_t warm_ns = 0;  // 0: never asked to warm up
  int64_t last_progress_ns = 0;
  int64_t killed_ns = 0;  // 0: not killed
  // Its hung threads at that time, as in HungThreads; empty: none.
  std::vector<int64_t> hung_since_ns;
  // For a worker with Python stages: the file in which it writes its threads' stacks on request,
  // and what was read from it. Closed: not available.
  UniqueFd stacks_fd;
  int64_t stacks_asked_ns = 0;
  std::string stacks_dump;
  std::string stack;  // of the hanging thread, human-readable

  // What its process may hold besides its part of the pool's quotas. Kept until the process is
  // reaped, even if the pool is gone by then.
  struct Claims {
    MemoryClaim quota;  // of a worker written off in a replacement
    // The service's place for a replacement, if the budget has no quota for that worker.
    std::shared_ptr<const void> place;
    // Arenas that it may have mapped, by stream, until it reports them unmapped.
    struct Mapped {
      uint64_t bytes = 0;
      std::shared_ptr<const void> writer;
    };
    std::map<uint64_t, Mapped> mapped;
  };
  std::shared_ptr<Claims> claims = std::make_shared<Claims>();
  // Per kind of cache: the newest segments that it got, and the one that it writes to, possibly
  // only once it is bound (null: none).
  struct Segments {
    uint64_t told = 0;      // of those that everybody reads
    uint64_t told_own = 0;  // of the pool's own trust domain
    std::shared_ptr<const SegmentFolder::Segment> written;
    bool was_sent = false;         // the worker was told of `written`
    std::vector<uint64_t> former;  // of earlier trust domains; it may not have stopped writing yet
  };
  std::array<Segments, internal::v1::CacheKind_ARRAYSIZE> segments{};
  // Twice the rate that workers keep themselves, because lines may arrive late and together.
  RateLimit notes{2 * kNotesPerSecond, 2 * kNotesAtOnce};
  bool rehearsed = false;  // produced samples for its warm-up
  WorkerMemory memory;
  WorkerCurves curves;
  std::optional<internal::v1::PythonGrowth> python_growth;  // as it last said
  StageTimes stage_times;
  bool keeps_growing = false;  // for longer than tables and caches take to fill
  bool outgrew = false;        // it is replaced because it is full
  CpuShare cpu_share;
  // From the last IsRestless; negative: none yet.
  double cpu_seconds_at_rest = -1;
  bool runnable_at_rest = false;

  PoolWorker(FlightReader flight_reader, uint32_t threads, uint64_t quota_bytes)
      : flight(std::move(flight_reader)), memory(threads, quota_bytes), cpu_share(threads) {}

  // Its CodeLoaded had these files.
  void NoteCode(const google::protobuf::RepeatedPtrField<v1::CodeFile>& files) {
    code_files += static_cast<uint64_t>(files.size());
    if (bound) return;
    for (const v1::CodeFile& file : files) code_at_bind.insert(file.name());
  }
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

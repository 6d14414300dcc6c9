#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/arena/flight_spans.h"
#include "server/base/durations/duration_buckets.h"
#include "server/os/memory/memory_fault.h"
#include "server/os/memory/memory_map.h"

namespace bulkhead {

// One thread's counters for one stage. Only that thread writes them; shard 0 is shared by many
// threads, with read-modify-write. So a sum over the threads is exact whenever no thread is between
// two updates.
struct FlightCounters {
  std::atomic<int64_t> live_bytes{0};   // allocated in the stage and not freed; this thread's share
  std::atomic<int64_t> live_blocks{0};  // negative if the thread freed blocks that others allocated
  std::atomic<uint64_t> allocations{0};                // blocks allocated so far, freed or not
  std::atomic<uint64_t> busy_ns{0};                    // wall time in the stage
  std::atomic<uint64_t> runs{0};                       // samples that passed through
  std::atomic<uint64_t> times[kDurationBuckets] = {};  // those runs, by how long they took
};

// What a thread has decoded, and what it could skip: WorkCounts of
// server/pipeline/stage_observer.h.
enum class FlightCount {
  kCrops,
  kEntriesFound,
  kEntriesMade,
  kCoefficientsFound,
  kCoefficientsMade,
  kFilesUnread,
  kMcus,
  kMcusRead,
  kKeptFound,
  kKeptAdded,
  // JPEG files, by the reason why libjpeg-turbo decoded them; kFiles itself: those of our own
  // decoder.
  kFiles,
};
inline constexpr size_t kMostDecoders = 16;
inline constexpr size_t kFlightCounts = static_cast<size_t>(FlightCount::kFiles) + kMostDecoders;

// A thread's state with respect to the interpreter, which runs one thread at a time.
enum class FlightTurn : uint32_t {
  kNone,     // outside the interpreter
  kWaiting,  // waits for its turn: another thread's call takes long
  kInside,
};

// What one thread is doing. Threads do not share cache lines.
struct alignas(64) FlightThread {
  static constexpr size_t kSampleBytes = 1024;
  static constexpr size_t kMaxStages = 64;

  std::atomic<uint32_t> stage{0};
  std::atomic<uint32_t> sample_length{0};  // of `sample`; 0: none, or being written
  std::atomic<uint64_t> stream_id{0};
  std::atomic<uint64_t> lease_id{0};  // 0: none
  std::atomic<uint64_t> epoch{0};
  std::atomic<uint64_t> position{0};
  std::atomic<int64_t> began_ns{0};          // CLOCK_MONOTONIC, start of the sample
  std::atomic<int64_t> began_live_bytes{0};  // of the whole worker, at the start of the sample
  std::atomic<uint64_t> samples{0};          // decided so far
  std::atomic<FlightTurn> turn{FlightTurn::kNone};
  std::atomic<int64_t> turn_ns{0};   // CLOCK_MONOTONIC, start of the last turn
  std::atomic<int64_t> stage_ns{0};  // the same of `stage`
  // Its present work, which has no sample between two: a lease, or waiting for one. `work_ns`: its
  // start; 0: none yet.
  std::atomic<int64_t> work_ns{0};
  std::atomic<uint32_t> works{0};  // 0: it waits
  std::atomic<uint64_t> work_stream_id{0};
  std::atomic<uint64_t> work_lease_id{0};
  char sample[kSampleBytes] = {};  // the record's name: "pos-003.tfrecord@81923"
  FlightCounters counters[kMaxStages];
  std::atomic<uint64_t> counts[kFlightCounts] = {};  // by FlightCount
};

// The start of the shared page.
struct alignas(64) FlightHeader {
  static constexpr size_t kNameBytes = 96;
  static constexpr uint32_t kNobody = ~uint32_t{0};

  // Detects a recorder of another build, with threads of another size. It lies where older builds
  // had the number of threads, so that these refuse this layout too.
  static constexpr uint32_t kLayout = uint32_t{6} << 24 | sizeof(FlightThread);

  std::atomic<uint32_t> stage_count{0};
  uint32_t layout = 0;
  uint32_t thread_count = 0;
  // The refused allocation that ended the worker.
  std::atomic<uint32_t> refused_stage{kNobody};
  std::atomic<uint32_t> refused_thread{kNobody};
  std::atomic<uint64_t> refused_bytes{0};
  // The access to another's batch that ended the worker: the slot, the kind of access
  // (MemoryFault::Access), and the stage.
  std::atomic<uint32_t> wild_slot{kNobody};
  std::atomic<uint32_t> wild_access{0};
  std::atomic<uint32_t> wild_stage{kNobody};
  // Not 0: on SIGQUIT the worker writes the stacks of its Python threads to the pipe that it was
  // given.
  std::atomic<uint32_t> tells_stacks{0};
  // Not 0: the threads write what they do to their rings of spans.
  std::atomic<uint32_t> traced{0};
  char names[FlightThread::kMaxStages][kNameBytes] = {};
};

static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint32_t>::is_always_lock_free);
static_assert(std::is_standard_layout_v<FlightThread> && std::is_standard_layout_v<FlightHeader>);

// A copy of the recorder, made by the supervisor while the worker lives or afterwards.
struct FlightSnapshot {
  struct Stage {
    std::string name;  // "stages[0] decode_image"
    int64_t live_bytes = 0;
    int64_t live_blocks = 0;
    uint64_t allocations = 0;
    double busy_seconds = 0;
    uint64_t runs = 0;
    DurationCounts times{};  // runs, by how long they took
  };
  struct Thread {
    std::string stage;
    std::string sample;  // empty: none
    uint64_t stream_id = 0;
    uint64_t lease_id = 0;
    uint64_t epoch = 0;
    uint64_t position = 0;
    int64_t began_ns = 0;
    int64_t grown_bytes = 0;  // growth of the whole worker's live bytes since the sample began
    bool reads = false;       // the stage is the source
    FlightTurn turn = FlightTurn::kNone;
    int64_t turn_ns = 0;
    // When it last made progress: with the sample, or with its turn in the interpreter.
    int64_t progress_ns() const { return std::max(began_ns, turn_ns); }
  };
  std::vector<Stage> stages;    // in order of their tags
  std::vector<Thread> threads;  // decode threads, including idle ones
  uint64_t samples = 0;
  std::array<uint64_t, kFlightCounts> counts{};  // by FlightCount, all threads together
  uint64_t Count(FlightCount count) const { return counts[static_cast<size_t>(count)]; }
  // JPEG files decoded by decoder number `decoder`.
  uint64_t Files(size_t decoder) const {
    return counts[static_cast<size_t>(FlightCount::kFiles) + decoder];
  }
  int64_t live_bytes = 0;  // all stages together
  // The refused allocation that ended the worker; empty and 0: none.
  std::string refused_stage;
  uint64_t refused_bytes = 0;
  int refused_thread = -1;  // index in `threads`; -1: another thread, or none was refused
  // The access to another's batch that ended the worker.
  struct WildAccess {
    uint32_t slot = 0;
    MemoryFault::Access access = MemoryFault::Access::kUnknown;
    std::string stage;  // "worker": outside the stages, or in a thread that a stage started
  };
  std::optional<WildAccess> wild;
  bool tells_stacks = false;
};

// Shared memory in which one worker notes what its threads are doing and what its stages hold. It
// outlives the worker, so that the worker's end can be explained. The supervisor creates it and
// passes the descriptor to the worker, which attaches and writes. Notes take no locks and no system
// calls, so they may be made inside malloc and in signal handlers. A worker may write anything into
// it: Snapshot stays within its bounds and cleans every text; FlightReader (server/supervisor)
// drops what cannot be true.
//
//     | header, stage names | shard 0 (all other threads) | decode thread 0 | … | ring of thread 0
//     | … |
//
// The rings of spans have no memory while the worker is not traced. The supervisor makes it, so
// that it does not count as the worker's.
//
// Stage tags: kWorkerStage is everything outside the stages, kSourceStage reads and parses; the
// pipeline's stages follow in order from kFirstStage.
class FlightRecorder {
 public:
  static constexpr uint32_t kWorkerStage = 0;
  static constexpr uint32_t kSourceStage = 1;
  static constexpr uint32_t kFirstStage = 2;
  static constexpr uint32_t kMaxThreads = 256;
  // The names of the first two tags.
  static constexpr char kWorkerName[] = "worker";
  static constexpr char kSourceName[] = "source";

  static absl::StatusOr<FlightRecorder> Create(uint32_t threads);
  // INVALID_ARGUMENT if `fd` holds no recorder of this build with that many threads.
  static absl::StatusOr<FlightRecorder> Attach(UniqueFd fd, uint32_t threads);

  int fd() const { return fd_.get(); }
  uint32_t thread_count() const { return threads_; }

  // For the worker. Stages beyond FlightThread::kMaxStages share the last tag.
  void SetStages(absl::Span<const std::string> names) const;
  FlightHeader& header() const { return *header_; }
  FlightThread& shared() const { return shards_[0]; }
  FlightThread& thread(uint32_t index) const { return shards_[1 + index]; }
  // Live bytes of all stages and threads.
  int64_t LiveBytes() const;
  // A thread begins, and ends, a sample.
  void BeginSample(uint32_t thread, uint64_t stream_id, uint64_t lease_id, uint64_t epoch,
                   uint64_t position) const;
  void NameSample(uint32_t thread, absl::string_view identity) const;
  void EndSample(uint32_t thread) const;
  // The same for a batch's stages, without counting a sample.
  void EndBatch(uint32_t thread) const;
  // Whether the threads shall write spans.
  bool traced() const { return header_->traced.load(std::memory_order_relaxed) != 0; }
  FlightSpanRing& ring(uint32_t thread) const { return rings_[thread]; }

  // For the supervisor: the recorded names, by tag; and the notes, with these names of stages.
  std::vector<std::string> StageNames() const;
  FlightSnapshot Snapshot(absl::Span<const std::string> names) const;
  FlightSnapshot Snapshot() const { return Snapshot(StageNames()); }
  // Makes the memory of the rings and has the threads write, or ends both.
  void SetTraced(bool traced) const;

 private:
  FlightRecorder(UniqueFd fd, MemoryMap map, uint32_t threads);

  UniqueFd fd_;
  MemoryMap map_;
  uint32_t threads_;
  FlightHeader* header_;
  FlightThread* shards_;
  FlightSpanRing* rings_;
};

}  // namespace bulkhead

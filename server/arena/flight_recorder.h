#ifndef BULKHEAD_SERVER_ARENA_FLIGHT_RECORDER_H_
#define BULKHEAD_SERVER_ARENA_FLIGHT_RECORDER_H_

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
#include "server/os/memory/memory_fault.h"
#include "server/os/memory/memory_map.h"

namespace bulkhead {

// What is counted for one stage by one thread. Written by that thread alone (those of shard 0 by
// many, with read-modify-write), so a sum over the threads is exact while no thread is between two
// updates.
struct FlightCounters {
  std::atomic<int64_t> live_bytes{0};    // allocated in the stage and not freed; a thread's share
  std::atomic<int64_t> live_blocks{0};   // may be negative where others allocated what it freed
  std::atomic<uint64_t> allocations{0};  // blocks allocated in the stage so far, freed or not
  std::atomic<uint64_t> busy_ns{0};      // wall time in the stage
  std::atomic<uint64_t> runs{0};         // samples that went through it
};

// What a thread has decoded, and what it was spared: WorkCounts of
// server/pipeline/stage_observer.h.
enum class FlightCount {
  kCrops,
  kEntriesFound,
  kEntriesMade,
  kMcus,
  kMcusRead,
  kKeptFound,
  kKeptAdded,
  // JPEG files from here on: by the reason why libjpeg-turbo decoded them, kFiles itself: none.
  kFiles,
};
inline constexpr size_t kMostDecoders = 16;
inline constexpr size_t kFlightCounts = static_cast<size_t>(FlightCount::kFiles) + kMostDecoders;

// Where a thread stands with an interpreter that has one of them at a time.
enum class FlightTurn : uint32_t {
  kNone,     // it has no business there
  kWaiting,  // for its turn: what takes long is another's doing
  kInside,
};

// What one thread is doing. Threads do not share cache lines.
struct alignas(64) FlightThread {
  static constexpr size_t kSampleBytes = 1024;
  static constexpr size_t kMaxStages = 64;

  std::atomic<uint32_t> stage{0};
  std::atomic<uint32_t> sample_length{0};  // of `sample`; 0: none, or being written
  std::atomic<uint64_t> stream_id{0};
  std::atomic<uint64_t> lease_id{0};  // 0: at no lease
  std::atomic<uint64_t> epoch{0};
  std::atomic<uint64_t> position{0};
  std::atomic<int64_t> began_ns{0};          // CLOCK_MONOTONIC, of the sample
  std::atomic<int64_t> began_live_bytes{0};  // of the whole worker, when the sample began
  std::atomic<uint64_t> samples{0};          // decided so far
  std::atomic<FlightTurn> turn{FlightTurn::kNone};
  std::atomic<int64_t> turn_ns{0};  // CLOCK_MONOTONIC, when the last turn began
  char sample[kSampleBytes] = {};   // record identity: "pos-003.tfrecord@81923"
  FlightCounters counters[kMaxStages];
  std::atomic<uint64_t> counts[kFlightCounts] = {};  // by FlightCount
};

// The beginning of the shared page.
struct alignas(64) FlightHeader {
  static constexpr size_t kNameBytes = 96;
  static constexpr uint32_t kNobody = ~uint32_t{0};

  // Tells a recorder of another build, whose threads are of another size. It stands where the
  // number of threads stood before there was a layout, so that such a build refuses this one, too.
  static constexpr uint32_t kLayout = uint32_t{4} << 24 | sizeof(FlightThread);

  std::atomic<uint32_t> stage_count{0};
  uint32_t layout = 0;
  uint32_t thread_count = 0;
  // The allocation that was refused, after which the worker ended.
  std::atomic<uint32_t> refused_stage{kNobody};
  std::atomic<uint32_t> refused_thread{kNobody};
  std::atomic<uint64_t> refused_bytes{0};
  // The access to a batch that was not the worker's to touch, after which it ended: the slot, how
  // (MemoryFault::Access), and in which stage.
  std::atomic<uint32_t> wild_slot{kNobody};
  std::atomic<uint32_t> wild_access{0};
  std::atomic<uint32_t> wild_stage{kNobody};
  // Not 0: SIGQUIT makes the worker write the stacks of its Python threads to the pipe that it was
  // given.
  std::atomic<uint32_t> tells_stacks{0};
  char names[FlightThread::kMaxStages][kNameBytes] = {};
};

static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint32_t>::is_always_lock_free);
static_assert(std::is_standard_layout_v<FlightThread> && std::is_standard_layout_v<FlightHeader>);

// A copy of the recorder, made by the supervisor while the worker lives or after its end.
struct FlightSnapshot {
  struct Stage {
    std::string name;  // "stages[0] decode_image"
    int64_t live_bytes = 0;
    int64_t live_blocks = 0;
    uint64_t allocations = 0;
    double busy_seconds = 0;
    uint64_t runs = 0;
  };
  struct Thread {
    std::string stage;
    std::string sample;  // empty: at none
    uint64_t stream_id = 0;
    uint64_t lease_id = 0;
    uint64_t epoch = 0;
    uint64_t position = 0;
    int64_t began_ns = 0;
    int64_t grown_bytes = 0;  // of the whole worker's live bytes, since the sample began
    bool reads = false;       // the stage is the source's
    FlightTurn turn = FlightTurn::kNone;
    int64_t turn_ns = 0;
    // When it last got ahead: with the sample, or with its turn in the interpreter.
    int64_t progress_ns() const { return std::max(began_ns, turn_ns); }
  };
  std::vector<Stage> stages;    // in the order of their tags
  std::vector<Thread> threads;  // decode threads, those at no lease included
  uint64_t samples = 0;
  std::array<uint64_t, kFlightCounts> counts{};  // by FlightCount, of all threads together
  uint64_t Count(FlightCount count) const { return counts[static_cast<size_t>(count)]; }
  // JPEG files that were decoded by the decoder of that number.
  uint64_t Files(size_t decoder) const {
    return counts[static_cast<size_t>(FlightCount::kFiles) + decoder];
  }
  int64_t live_bytes = 0;  // of all stages together
  // The allocation that ended the worker; empty and 0: none was refused.
  std::string refused_stage;
  uint64_t refused_bytes = 0;
  int refused_thread = -1;  // number in `threads`; -1: none of them, or none was refused
  // The access to a batch that was not the worker's, which ended it.
  struct WildAccess {
    uint32_t slot = 0;
    MemoryFault::Access access = MemoryFault::Access::kUnknown;
    std::string stage;  // "worker": outside of the stages, or a thread that a stage started
  };
  std::optional<WildAccess> wild;
  bool tells_stacks = false;
};

// Shared memory in which one worker notes what its threads are doing and what its stages hold, and
// which outlives it, so that its end can be explained. The supervisor creates it and passes the
// descriptor to the worker, which attaches and writes; no locks, no system calls, so that notes may
// be taken inside malloc and in signal handlers. A worker may write anything into it: Snapshot
// keeps within its bounds and cleans every text; what can be true of it FlightReader tells
// (server/supervisor).
//
//     | header, stage names | shard 0 (threads that are no decode threads) | decode thread 0 | … |
//
// Stage tags: kWorkerStage is whatever is outside the stages, kSourceStage reads and parses, the
// others are the pipeline's stages in their order, from kFirstStage.
class FlightRecorder {
 public:
  static constexpr uint32_t kWorkerStage = 0;
  static constexpr uint32_t kSourceStage = 1;
  static constexpr uint32_t kFirstStage = 2;
  static constexpr uint32_t kMaxThreads = 256;
  // The names of the first two.
  static constexpr char kWorkerName[] = "worker";
  static constexpr char kSourceName[] = "source";

  static absl::StatusOr<FlightRecorder> Create(uint32_t threads);
  // INVALID_ARGUMENT when `fd` holds no recorder of this build for that many threads.
  static absl::StatusOr<FlightRecorder> Attach(UniqueFd fd, uint32_t threads);

  int fd() const { return fd_.get(); }
  uint32_t thread_count() const { return threads_; }

  // The worker's side. Stages beyond FlightThread::kMaxStages share the last tag.
  void SetStages(absl::Span<const std::string> names) const;
  FlightHeader& header() const { return *header_; }
  FlightThread& shared() const { return shards_[0]; }
  FlightThread& thread(uint32_t index) const { return shards_[1 + index]; }
  // Live bytes of all stages and threads together.
  int64_t LiveBytes() const;
  // The sample that a thread takes up, and that it is done with one.
  void BeginSample(uint32_t thread, uint64_t stream_id, uint64_t lease_id, uint64_t epoch,
                   uint64_t position) const;
  void NameSample(uint32_t thread, absl::string_view identity) const;
  void EndSample(uint32_t thread) const;
  // The same for the stages of a batch: no sample more is counted.
  void EndBatch(uint32_t thread) const;

  // The supervisor's side. The names that stand there, by tag; and what is noted, of stages that
  // have these names.
  std::vector<std::string> StageNames() const;
  FlightSnapshot Snapshot(absl::Span<const std::string> names) const;
  FlightSnapshot Snapshot() const { return Snapshot(StageNames()); }

 private:
  FlightRecorder(UniqueFd fd, MemoryMap map, uint32_t threads);

  UniqueFd fd_;
  MemoryMap map_;
  uint32_t threads_;
  FlightHeader* header_;
  FlightThread* shards_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_ARENA_FLIGHT_RECORDER_H_

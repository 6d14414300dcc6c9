#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/arena/flight_recorder.h"
#include "server/os/event_loop.h"
#include "server/supervisor/worker/pipeline_stages.h"

namespace bulkhead {

// Reads a worker's flight recorder and drops what cannot be true. A worker runs the user's code,
// which can write anything into the recorder; what is read here goes into logs, status and metrics.
//
// A stage that the pipeline does not have, or that already has another tag, has no counters, and a
// thread in it is shown at kUnknownStage. The first name that is read for a tag stays. A counter
// that went back, or is impossible, keeps its previous value. Impossible is:
//   - per thread: more than one file, crop or kept value a microsecond, one sample or run in 100
//     ns, or one allocation in 10 ns; any file or crop if no stage decodes images,
//   - more than 64 MCUs a nanosecond. (MCUs that a crop skips take no time, but the crop of the
//     largest photo, 130,000 MCUs, takes more than the 2 us that this allows.)
//   - more time in a stage than the worker's age, times its threads,
//   - more memory than the worker's limit or, if that is not known, than an address space of 128
//     TiB. The same holds for memory below zero: threads free what others allocated.
// Times lie within the worker's life.
//
// Within these limits a worker can still divide its figures among its own stages and samples as it
// likes. Lives on the supervisor's thread.
class FlightReader {
 public:
  static constexpr char kUnknownStage[] = "unknown";
  static constexpr uint64_t kAddressSpaceBytes = uint64_t{1} << 47;

  // `stages` must outlive this. `threads`: the most that the worker may have. Its life begins now.
  FlightReader(FlightRecorder recorder, const PipelineStages& stages, uint32_t threads)
      : recorder_(std::move(recorder)), known_(stages), threads_(threads) {}

  const FlightRecorder& recorder() const { return recorder_; }
  // Sets the worker's memory limit; 0: not known.
  void LimitMemory(uint64_t bytes) {
    most_bytes_ = bytes == 0 ? kAddressSpaceBytes : std::min(bytes, kAddressSpaceBytes);
  }

  FlightSnapshot Read();
  // The names of the stages, by tag; kUnknownStage: none that the pipeline has. Empty: not told
  // yet.
  const std::vector<std::string>& StageNames() {
    NameStages();
    return names_;
  }
  // The start of the worker's life (CLOCK_MONOTONIC).
  int64_t begun_ns() const { return begun_ns_; }

 private:
  void NameStages();
  // `nanos`: of the worker's life, of all its threads.
  void CheckStage(uint64_t nanos, size_t number, FlightSnapshot::Stage& stage);
  // Whether a sum of memory, in bytes or blocks, positive or negative, is within the limit.
  bool MayHold(int64_t amount) const;

  FlightRecorder recorder_;
  const PipelineStages& known_;
  const uint32_t threads_;
  const int64_t begun_ns_ = MonotonicNanos();
  uint64_t most_bytes_ = kAddressSpaceBytes;
  // The last values that were accepted.
  std::vector<std::string> names_;             // by tag
  std::vector<FlightSnapshot::Stage> stages_;  // by tag; names left out
  uint64_t samples_ = 0;
  std::array<uint64_t, kFlightCounts> counts_{};
};

}  // namespace bulkhead

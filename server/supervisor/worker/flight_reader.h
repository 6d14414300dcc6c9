#ifndef BULKHEAD_SERVER_SUPERVISOR_WORKER_FLIGHT_READER_H_
#define BULKHEAD_SERVER_SUPERVISOR_WORKER_FLIGHT_READER_H_

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "server/arena/flight_recorder.h"

namespace bulkhead {

// What of a worker's flight recorder can be true. A worker runs the user's code, which can map the
// recorder and write anything into it; what is read here goes into logs, the status and metrics.
//
// A stage that the pipeline does not have, or that has another tag already, has no counters, and
// who is at it is at kUnknownStage; the first name that is read for a tag stays. Of a counter that
// went back, or beyond reason, the number before stays; beyond reason is
//   - of a worker's life and thread more than one file, crop or kept value a microsecond, one
//   sample
//     or run in 100 ns, one allocation in 10 ns; any file or crop where no stage decodes images,
//   - more MCUs than 64 a nanosecond: those that a crop spares take no time, and the crop of the
//     largest photo, 130,000 MCUs, takes more than the 2 us that this comes to,
//   - more time in a stage than the worker's life, times its threads,
//   - more memory than the worker may have: its limit where that is known, else the 128 TiB of an
//     address space. So much may also be missing: threads free what others allocated.
// Times lie within the worker's life.
//
// What remains a worker's own word is how it divides what can be true among its own stages and
// samples. Lives on the supervisor's thread.
class FlightReader {
 public:
  static constexpr char kUnknownStage[] = "unknown";
  static constexpr uint64_t kAddressSpaceBytes = uint64_t{1} << 47;

  // `stages`: what the stages of the worker's pipeline are called, beside the worker itself and the
  // source; must outlive this. `threads`: that it may have, all together. Its life begins now.
  FlightReader(FlightRecorder recorder, const std::set<std::string>& stages, uint32_t threads);

  const FlightRecorder& recorder() const { return recorder_; }
  // The worker cannot have more memory of its own; 0: not known.
  void LimitMemory(uint64_t bytes);

  FlightSnapshot Read();

 private:
  struct Limits {
    uint64_t nanos = 0;  // of its life, of all threads
    double busy_seconds = 0;
  };
  Limits LimitsAt(int64_t now_ns) const;
  void NameStages();
  void CheckStage(const Limits& limits, size_t number, FlightSnapshot::Stage& stage);
  // Whether it is so much memory, in bytes or in blocks, or so much is missing.
  bool MayHold(int64_t amount) const;

  FlightRecorder recorder_;
  const std::set<std::string>& known_;
  const uint32_t threads_;
  const int64_t begun_ns_;
  uint64_t most_bytes_ = kAddressSpaceBytes;
  // What was believed last.
  std::vector<std::string> names_;             // by tag
  std::vector<FlightSnapshot::Stage> stages_;  // by tag; names left out
  uint64_t samples_ = 0;
  std::array<uint64_t, kFlightCounts> counts_{};
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_WORKER_FLIGHT_READER_H_

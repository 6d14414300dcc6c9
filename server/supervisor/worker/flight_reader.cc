#include "server/supervisor/worker/flight_reader.h"

#include <algorithm>
#include <limits>

namespace bulkhead {
namespace {

// Of an honest worker each takes several times as long.
constexpr uint64_t kNanosPerImage = 1000;  // a file, a crop, a value that is kept
constexpr uint64_t kNanosPerRun = 100;     // a sample, or one run of a stage
constexpr uint64_t kNanosPerAllocation = 10;
constexpr uint64_t kMcusPerNanosecond = 64;

uint64_t Times(uint64_t a, uint64_t b) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  return b != 0 && a > kMost / b ? kMost : a * b;
}

// Raises `believed` to `said`, unless that went back or beyond `most`; gives what is believed then.
template <typename Number>
Number Raise(Number& believed, Number said, Number most) {
  if (said > believed && said <= most) believed = said;
  return believed;
}

// The largest counters that a worker with these stages can have after `nanos` of all its threads.
uint64_t MostCounted(FlightCount count, const PipelineStages& stages, uint64_t nanos) {
  const bool is_kept = count == FlightCount::kKeptFound || count == FlightCount::kKeptAdded;
  if (is_kept ? stages.keeping.empty() : stages.decoding.empty()) return 0;
  const bool is_mcus = count == FlightCount::kMcus || count == FlightCount::kMcusRead;
  return is_mcus ? Times(nanos, kMcusPerNanosecond) : nanos / kNanosPerImage;
}

}  // namespace

void FlightReader::NameStages() {
  const std::vector<std::string> said = recorder_.StageNames();
  for (size_t tag = names_.size(); tag < said.size(); ++tag) {
    const std::string& name = said[tag];
    const bool is_known = known_.names.count(name) > 0 || name == FlightRecorder::kWorkerName ||
                          name == FlightRecorder::kSourceName;
    const bool is_new = std::ranges::find(names_, name) == names_.end();
    names_.push_back(is_known && is_new ? name : kUnknownStage);
  }
  stages_.resize(names_.size());
}

bool FlightReader::MayHold(int64_t amount) const {
  const auto most = static_cast<int64_t>(most_bytes_);
  return amount >= -most && amount <= most;
}

void FlightReader::CheckStage(uint64_t nanos, size_t number, FlightSnapshot::Stage& stage) {
  FlightSnapshot::Stage& believed = stages_[number];
  if (MayHold(stage.live_bytes)) believed.live_bytes = stage.live_bytes;
  if (MayHold(stage.live_blocks)) believed.live_blocks = stage.live_blocks;
  stage.live_bytes = believed.live_bytes;
  stage.live_blocks = believed.live_blocks;
  stage.allocations = Raise(believed.allocations, stage.allocations, nanos / kNanosPerAllocation);
  stage.runs = Raise(believed.runs, stage.runs, nanos / kNanosPerRun);
  for (size_t i = 0; i < kDurationBuckets; ++i) {
    stage.times[i] = Raise(believed.times[i], stage.times[i], nanos / kNanosPerRun);
  }
  const double life_seconds = static_cast<double>(nanos) / 1e9;
  stage.busy_seconds = Raise(believed.busy_seconds, stage.busy_seconds, life_seconds);
}

FlightSnapshot FlightReader::Read() {
  NameStages();
  FlightSnapshot flight = recorder_.Snapshot(names_);
  const int64_t now_ns = MonotonicNanos();  // behind what is noted
  const uint64_t nanos =
      Times(static_cast<uint64_t>(std::max<int64_t>(0, now_ns - begun_ns_)), threads_);
  flight.live_bytes = 0;
  for (size_t i = 0; i < flight.stages.size(); ++i) {
    CheckStage(nanos, i, flight.stages[i]);
    flight.live_bytes += flight.stages[i].live_bytes;
  }
  std::erase_if(flight.stages, [](const auto& stage) { return stage.name == kUnknownStage; });
  flight.samples = Raise(samples_, flight.samples, nanos / kNanosPerRun);
  for (size_t i = 0; i < kFlightCounts; ++i) {
    const uint64_t most = MostCounted(static_cast<FlightCount>(i), known_, nanos);
    flight.counts[i] = Raise(counts_[i], flight.counts[i], most);
  }
  for (FlightSnapshot::Thread& thread : flight.threads) {
    thread.began_ns = std::clamp(thread.began_ns, begun_ns_, now_ns);
    thread.turn_ns = std::clamp(thread.turn_ns, begun_ns_, now_ns);
    if (!MayHold(thread.grown_bytes)) thread.grown_bytes = 0;
  }
  // No program is refused more at once, and sums with it must not wrap around.
  flight.refused_bytes =
      std::min<uint64_t>(flight.refused_bytes, std::numeric_limits<int64_t>::max());
  return flight;
}

}  // namespace bulkhead

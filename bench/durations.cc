// What it costs a worker to count how long a run of a stage took: nanoseconds a run, the fastest of
// nine rounds. The durations are drawn evenly over the orders of magnitude from 1 µs to 10 ms, so
// that no branch can be foreseen, which is the worst case.
//
//   build/release/bin/bulkhead-bench-durations
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "server/base/durations/duration_buckets.h"
#include "tools/common/machine.h"

namespace {

constexpr size_t kRuns = 1 << 16;
constexpr int kTurns = 100;
constexpr int kRounds = 9;

double NanosPerRun(const std::vector<int64_t>& durations) {
  // As flight_notes.cc counts them: one thread writes, others may read.
  std::atomic<uint64_t> counts[bulkhead::kDurationBuckets] = {};
  const auto start = std::chrono::steady_clock::now();
  for (int turn = 0; turn < kTurns; ++turn) {
    for (const int64_t nanos : durations) {
      auto& count = counts[bulkhead::DurationBucket(nanos)];
      count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  return took.count() / (static_cast<double>(kTurns) * static_cast<double>(durations.size()));
}

}  // namespace

int main() {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(3, 7);
  std::vector<int64_t> durations(kRuns);
  for (int64_t& nanos : durations) nanos = static_cast<int64_t>(std::pow(10, exponent(random)));
  double best = NanosPerRun(durations);
  for (int round = 1; round < kRounds; ++round) best = std::min(best, NanosPerRun(durations));
  std::printf("machine: %s\n", bulkhead::tools::DescribeMachine().Text().c_str());
  std::printf("counting how long a run took: %.2f ns a run\n", best);
  return 0;
}

#include "server/supervisor/worker/worker_usage.h"

#include <gtest/gtest.h>

#include <vector>

#include "server/os/event_loop.h"

namespace bulkhead {
namespace {

constexpr size_t kTaken = size_t{64} << 20;

v1::ProcessUsage Own(UsageReader& reader, bool fresh) {
  v1::GetStatusResponse response;
  reader.Fill(response, fresh);
  return response.supervisor();
}

TEST(UsageReaderTest, AReadingTellsItsAgeAndAnotherFollows) {
  UsageReader reader;
  const int64_t begin_ns = MonotonicNanos();
  const uint64_t before = Own(reader, false).memory_bytes();
  const std::vector<char> taken(kTaken, 'x');
  const v1::ProcessUsage again = Own(reader, false);
  EXPECT_LE(again.age_seconds(), 1e-9 * static_cast<double>(MonotonicNanos() - begin_ns));
  const int64_t taken_ns = MonotonicNanos();
  v1::ProcessUsage fresh;
  do {  // a fresh one may be a little older
    fresh = Own(reader, true);
  } while (1e-9 * static_cast<double>(MonotonicNanos() - taken_ns) <= fresh.age_seconds());
  EXPECT_GE(fresh.memory_bytes(), before + kTaken / 2);
}

}  // namespace
}  // namespace bulkhead

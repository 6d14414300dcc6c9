#include "tools/measure/memory_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"

namespace bulkhead::tools {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::vector<std::string> Draw(const std::vector<MemoryWatch::Look>& looks) {
  MemoryChart chart;
  chart.width = 60;
  chart.height = 8;
  chart.quota_bytes = 100 * kMiB;
  return absl::StrSplit(DrawMemory(chart, "title", looks), '\n');
}

TEST(MemoryChartTest, ShowsASawtoothUnderTheQuotaAndAFlatTrainer) {
  std::vector<MemoryWatch::Look> looks;
  for (int i = 0; i < 600; ++i) {
    const auto sawtooth = static_cast<uint64_t>(i % 100);
    looks.push_back({i * 0.01, 40 * kMiB, 8 * kMiB, (10 + sawtooth * 8 / 10) * kMiB});
  }
  const std::vector<std::string> rows = Draw(looks);
  EXPECT_EQ(rows[0], "title");
  EXPECT_THAT(rows[1], testing::HasSubstr("====")) << "the quota";
  EXPECT_THAT(rows[1], testing::Not(testing::HasSubstr("#"))) << "nothing is above it";
  const std::vector<std::string> teeth = absl::StrSplit(rows[2], '#', absl::SkipEmpty());
  EXPECT_EQ(teeth.size(), 6u) << "what is left and right of six teeth, the last at the edge";
  EXPECT_THAT(rows[8], testing::HasSubstr("ssss"));
  // The trainer's 40 MiB lie in one row, but for where a tooth passes.
  EXPECT_GT(std::count(rows[5].begin(), rows[5].end(), 't'), 40);
  EXPECT_THAT(rows[10], testing::HasSubstr("6 s"));
}

TEST(MemoryChartTest, NothingSeenIsNoChart) { EXPECT_EQ(Draw({}).size(), 2u); }

}  // namespace
}  // namespace bulkhead::tools

#include "tools/preview/output_stats.h"

#include <gtest/gtest.h>

#include "tests/tools/made_batch.h"

namespace bulkhead::tools {
namespace {

TEST(OutputStatsTest, TellsOfAllBatchesTogether) {
  BatchMaker first(2), second(2);
  first.Add<float>("image", ElementType::kFloat32, {2, 2}, {-1, 3, 2, 0})
      .Add<int64_t>("label", ElementType::kInt64, {2}, {4, 6});
  second.Add<float>("image", ElementType::kFloat32, {2, 2}, {5, 7, 100, 100})
      .Add<int64_t>("label", ElementType::kInt64, {2}, {1, 100});
  OutputStats stats;
  stats.Add(first.Make(), 2);
  stats.Add(second.Make(), 1);
  EXPECT_EQ(stats.Describe("image"), "image float32 [2]  min -1  max 7  mean 2.66667");
  EXPECT_EQ(stats.Describe("nothing"), "");
  EXPECT_EQ(stats.DescribeAll(),
            "  image float32 [2]  min -1  max 7  mean 2.66667\n"
            "  label int64 []  min 1  max 6  mean 3.66667\n");
}

TEST(OutputStatsTest, LeavesPaddingOut) {
  BatchMaker maker(2);
  maker.Add<float>("boxes", ElementType::kFloat32, {2, 2, 2}, {3, 4, 0, 0, 5, 6, 7, 8})
      .Add<int64_t>("boxes_count", ElementType::kInt64, {2}, {1, 2});
  OutputStats stats;
  stats.Add(maker.Make(), 2);
  EXPECT_EQ(stats.Describe("boxes"), "boxes float32 [2,2]  min 3  max 8  mean 5.5");
}

}  // namespace
}  // namespace bulkhead::tools

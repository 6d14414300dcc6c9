#include "tools/common/tensor_stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace bulkhead::tools::tensor_stats_test {
namespace {

template <typename T>
Tensor Of(const std::vector<T>& values, ElementType type, std::vector<int64_t> shape) {
  return {"x", type, sizeof(T), std::move(shape), values.data(), values.size() * sizeof(T)};
}

TEST(TensorStatsTest, LeavesPaddingOut) {
  const std::vector<int32_t> values = {-4, 2, 5, 100};
  const TensorStats stats = ComputeStats(Of(values, ElementType::kInt32, {4}), 3);
  EXPECT_EQ(stats.min, -4);
  EXPECT_EQ(stats.max, 5);
  EXPECT_EQ(stats.mean, 1);
}

TEST(TensorStatsTest, TakesTheRowsOfTheFirstSamples) {
  const std::vector<int32_t> values = {1, 2, 3, 4, 50, 60};
  const std::vector<int64_t> offsets = {0, 0, 2, 3};
  Tensor rows = Of(values, ElementType::kInt32, {3, 2});
  rows.packing = Packing::kRows;
  rows.row_offsets = offsets.data();
  EXPECT_EQ(FirstElementOf(rows, 1), 0u);
  EXPECT_EQ(FirstElementOf(rows, 2), 4u);
  EXPECT_EQ(ComputeStats(rows, 2).max, 4);
  EXPECT_EQ(ComputeStats(rows, 3).max, 60);
  EXPECT_EQ(DescribeTensor(rows, 1), "x  int32[3,2]");
  const Tensor plain = Of(values, ElementType::kInt32, {3, 2});
  EXPECT_EQ(FirstElementOf(plain, 2), 4u);
}

TEST(TensorStatsTest, CountsWhatIsNotFinite) {
  const std::vector<float> values = {1, std::nanf(""), std::numeric_limits<float>::infinity(), 3};
  const Tensor tensor = Of(values, ElementType::kFloat32, {2, 2});
  const TensorStats stats = ComputeStats(tensor, 2);
  EXPECT_EQ(stats.not_finite, 2);
  EXPECT_EQ(stats.mean, 2);
  EXPECT_EQ(DescribeTensor(tensor, 2),
            "x  float32[2,2]  min 1  max 3  mean 2  NOT FINITE: 2 elements");
}

TEST(TensorStatsTest, ReadsHalvesAndBfloats) {
  // 1, −2, the largest half, the smallest half above 0, infinity
  const std::vector<uint16_t> halves = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x7c00};
  const Tensor half = Of(halves, ElementType::kFloat16, {5});
  EXPECT_EQ(ElementAt(half, 0), 1);
  EXPECT_EQ(ElementAt(half, 1), -2);
  EXPECT_EQ(ElementAt(half, 2), 65504);
  EXPECT_EQ(ElementAt(half, 3), std::ldexp(1, -24));
  EXPECT_TRUE(std::isinf(ElementAt(half, 4)));
  const std::vector<uint16_t> bfloats = {0x3f80, 0xc040};
  const Tensor bfloat = Of(bfloats, ElementType::kBfloat16, {2});
  EXPECT_EQ(ElementAt(bfloat, 0), 1);
  EXPECT_EQ(ElementAt(bfloat, 1), -3);
}

TEST(TensorStatsTest, ShowsTheFirstByteString) {
  const std::string bytes("a\nb\0\0\0", 6);
  const Tensor tensor = {"path", ElementType::kBytes, 3, {2}, bytes.data(), 6};
  EXPECT_EQ(DescribeTensor(tensor, 2), "path  bytes<=3[2]  first \"a\\nb\"");
}

}  // namespace
}  // namespace bulkhead::tools::tensor_stats_test

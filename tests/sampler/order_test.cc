#include "server/sampler/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "server/base/error.h"

namespace bulkhead {
namespace {

v1::Order GlobalOrder(bool reshuffle = true) {
  v1::Order order;
  order.mutable_global()->set_reshuffle(reshuffle);
  return order;
}

std::vector<uint64_t> Records(const SampleOrder& order, uint64_t epoch, uint64_t count) {
  std::vector<uint64_t> records;
  for (uint64_t position = 0; position < count; ++position) {
    records.push_back(order.RecordAt(epoch, position));
  }
  return records;
}

TEST(SequentialOrderTest, IsTheIdentity) {
  v1::Order order;
  order.mutable_sequential();
  const auto sequential = MakeOrder(order, 1, 10).value();
  for (uint64_t position = 0; position < 10; ++position) {
    EXPECT_EQ(sequential->RecordAt(3, position), position);
  }
}

TEST(GlobalOrderTest, IsABijectionForEverySmallSize) {
  for (uint64_t count = 1; count <= 300; ++count) {
    auto records = Records(*MakeOrder(GlobalOrder(), 5, count).value(), 2, count);
    std::sort(records.begin(), records.end());
    for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(records[i], i) << "of " << count;
  }
}

TEST(GlobalOrderTest, DependsOnSeedAndEpoch) {
  const auto order = MakeOrder(GlobalOrder(), 1, 1000).value();
  EXPECT_NE(Records(*order, 0, 50), Records(*order, 1, 50));
  EXPECT_NE(Records(*order, 0, 50), Records(*MakeOrder(GlobalOrder(), 2, 1000).value(), 0, 50));
  EXPECT_EQ(Records(*order, 1, 50), Records(*MakeOrder(GlobalOrder(), 1, 1000).value(), 1, 50));
}

TEST(GlobalOrderTest, WithoutReshuffleEveryEpochIsTheSame) {
  const auto order = MakeOrder(GlobalOrder(false), 1, 1000).value();
  EXPECT_EQ(Records(*order, 0, 1000), Records(*order, 7, 1000));
}

// Where the record of a fixed position lands over many epochs must be uniform.
TEST(GlobalOrderTest, PositionsAreUniformOverEpochs) {
  constexpr uint64_t kCount = 50;
  constexpr int kEpochs = 20000;
  const auto order = MakeOrder(GlobalOrder(), 3, kCount).value();
  std::vector<int> hits(kCount);
  for (int epoch = 0; epoch < kEpochs; ++epoch) ++hits[order->RecordAt(epoch, 7)];
  const double expected = static_cast<double>(kEpochs) / kCount;
  double chi_square = 0;
  for (const int hit : hits) chi_square += (hit - expected) * (hit - expected) / expected;
  EXPECT_LT(chi_square, 85.35);  // 49 degrees of freedom, p = 0.001; the seed is fixed
}

TEST(GlobalOrderTest, NeighboursAreUncorrelated) {
  constexpr uint64_t kCount = 10000;
  const auto records = Records(*MakeOrder(GlobalOrder(), 4, kCount).value(), 0, kCount);
  const double mean = (kCount - 1) / 2.0;
  double covariance = 0;
  double variance = 0;
  for (uint64_t i = 0; i + 1 < kCount; ++i) {
    covariance += (records[i] - mean) * (records[i + 1] - mean);
    variance += (records[i] - mean) * (records[i] - mean);
  }
  EXPECT_LT(std::abs(covariance / variance), 0.033);  // 3.3 standard deviations of 1/√n
}

TEST(MakeOrderTest, RefusesAnEmptySource) {
  const auto status = MakeOrder(GlobalOrder(), 1, 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorInfo(status)->reason, reason::kNoSamples);
}

}  // namespace
}  // namespace bulkhead

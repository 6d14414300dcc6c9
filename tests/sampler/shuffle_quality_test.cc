// How random the shuffles are, by two classic measures. Seeds are fixed, so that these never fail
// by chance; the bounds are those that a true shuffle stays within with a probability of 0.999.
#include <cmath>

#include "tests/sampler/order_records.h"

namespace bulkhead {
namespace {

constexpr char kGlobal[] = "global {}";
constexpr char kBlock[] = "block { block_size: 4 window: 3 }";

// Where one position lands over many epochs must be uniform over all records: χ² of the hits.
double ChiSquare(const SampleOrder& order, uint64_t position, uint64_t count) {
  constexpr uint64_t kEpochs = 20000;
  std::vector<double> hits(count);
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) ++hits[order.RecordAt(epoch, position)];
  const double expected = static_cast<double>(kEpochs) / static_cast<double>(count);
  double sum = 0;
  for (const double hit : hits) sum += (hit - expected) * (hit - expected) / expected;
  return sum;
}

// Correlation of each position's record with that of the next position.
double SerialCorrelation(const SampleOrder& order, uint64_t epoch, uint64_t count) {
  const double mean = static_cast<double>(count - 1) / 2;
  double covariance = 0;
  double variance = 0;
  double last = 0;
  for (uint64_t position = 0; position < count; ++position) {
    const double distance = static_cast<double>(order.RecordAt(epoch, position)) - mean;
    if (position > 0) covariance += last * distance;
    variance += distance * distance;
    last = distance;
  }
  return covariance / variance;
}

// A short last block would break the rule a little: where it is alone in a window, its few records
// share fewer positions.
TEST(ShuffleQualityTest, EveryRecordIsEquallyLikelyAtAPosition) {
  for (const char* text : {kGlobal, kBlock}) {
    const auto order = OrderOf(text, 3, {48});
    for (const uint64_t position : {0u, 7u, 25u, 47u}) {
      // 47 degrees of freedom; below the 0.001 quantile it would be too even to be random.
      EXPECT_LT(ChiSquare(*order, position, 48), 82.7) << text << " position " << position;
      EXPECT_GT(ChiSquare(*order, position, 48), 22.5) << text << " position " << position;
    }
  }
}

TEST(ShuffleQualityTest, WithoutReshuffleAPositionHasOneRecord) {
  for (const char* text :
       {"global { reshuffle: false }", "block { block_size: 4 window: 3 reshuffle: false }"}) {
    // All epochs hit one record of 50: the largest χ² there is.
    EXPECT_DOUBLE_EQ(ChiSquare(*OrderOf(text, 3, {50}), 7, 50), 20000.0 * 49) << text;
  }
}

TEST(ShuffleQualityTest, NeighboursOfAGlobalShuffleAreUncorrelated) {
  const auto order = OrderOf(kGlobal, 4, {10000});
  for (uint64_t epoch = 0; epoch < 5; ++epoch) {
    EXPECT_LT(std::abs(SerialCorrelation(*order, epoch, 10000)), 0.033);  // 3.3 / √n
  }
}

// Records of a block are almost equal on the scale of the whole set, and neighbours come from one
// block with a probability of (block_size − 1) / (window · block_size): that is the correlation,
// the price of reading in blocks.
TEST(ShuffleQualityTest, NeighboursOfABlockShuffleCorrelateAsTheWindowSays) {
  for (const uint64_t window : {1u, 4u, 16u, 64u}) {
    v1::Order spec;
    spec.mutable_block()->set_block_size(32);
    spec.mutable_block()->set_window(window);
    const std::vector<uint64_t> files = {320000};
    const auto order = MakeOrder(spec, 4, files).value();
    const double expected = 31.0 / (32.0 * static_cast<double>(window));
    EXPECT_NEAR(SerialCorrelation(*order, 0, 320000), expected, 0.01) << window;
  }
}

TEST(ShuffleQualityTest, EpochsAreUncorrelated) {
  for (const char* text : {kGlobal, kBlock}) {
    const auto order = OrderOf(text, 6, {10000});
    double covariance = 0;
    double variance = 0;
    for (uint64_t position = 0; position < 10000; ++position) {
      const double one = static_cast<double>(order->RecordAt(0, position)) - 4999.5;
      const double two = static_cast<double>(order->RecordAt(1, position)) - 4999.5;
      covariance += one * two;
      variance += one * one;
    }
    EXPECT_LT(std::abs(covariance / variance), 0.033 * 3.5) << text;
  }
}

}  // namespace
}  // namespace bulkhead

#include "server/supervisor/leases/stream_meter.h"

#include <gtest/gtest.h>

namespace bulkhead::stream_meter_test {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

v1::StreamStatus At(const StreamMeter& meter, int64_t now_ns) {
  v1::StreamStatus status;
  meter.Describe(now_ns, status);
  return status;
}

TEST(StreamMeterTest, OneOfTheTwoWaitsAtAnyMoment) {
  StreamMeter meter;
  EXPECT_EQ(At(meter, 3 * kSecond).waiting_for_workers_seconds(), 0) << "it has not begun";
  meter.Waits(StreamMeter::Waiting::kForWorkers, 10 * kSecond);
  meter.Waits(StreamMeter::Waiting::kForWorkers, 11 * kSecond);
  meter.Waits(StreamMeter::Waiting::kForTrainer, 12 * kSecond);
  meter.Waits(StreamMeter::Waiting::kForWorkers, 17 * kSecond);
  EXPECT_EQ(At(meter, 18 * kSecond).waiting_for_workers_seconds(), 3);
  EXPECT_EQ(At(meter, 18 * kSecond).waiting_for_trainer_seconds(), 5);
  EXPECT_EQ(At(meter, 20 * kSecond).waiting_for_workers_seconds(), 5) << "it goes on";
}

TEST(StreamMeterTest, CountsTheTimesBetweenBatches) {
  StreamMeter meter;
  meter.CountBatch(8, 5 * kSecond);
  meter.CountBatch(8, 7 * kSecond);
  meter.CountBatch(4, 20 * kSecond);
  const v1::StreamStatus status = At(meter, 30 * kSecond);
  EXPECT_EQ(status.samples_sent(), 20u);
  EXPECT_EQ(status.batch_gaps().sum(), 15);
  EXPECT_EQ(status.batch_gaps().bounds(9), 3);
  EXPECT_EQ(status.batch_gaps().counts(9), 1u) << "2 s";
  EXPECT_EQ(status.batch_gaps().counts(11), 1u) << "13 s, over the last bound";
}

}  // namespace
}  // namespace bulkhead::stream_meter_test

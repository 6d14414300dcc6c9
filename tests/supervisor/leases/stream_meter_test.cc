#include "server/supervisor/leases/stream_meter.h"

#include <gtest/gtest.h>

#include <memory>

namespace bulkhead::stream_meter_test {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

v1::StreamStatus At(const StreamMeter& meter, int64_t now_ns) {
  v1::StreamStatus status;
  meter.Describe(now_ns, status);
  return status;
}

v1::BatchHeader BatchOf(uint64_t samples, uint64_t sequence = 0) {
  v1::BatchHeader batch;
  batch.set_sequence(sequence);
  batch.set_valid_count(samples);
  return batch;
}

TEST(StreamMeterTest, OneOfTheTwoWaitsAtAnyMoment) {
  StreamMeter meter;
  EXPECT_EQ(At(meter, 3 * kSecond).waiting_for_workers_seconds(), 0) << "it has not begun";
  meter.Waits(StreamMeter::Waiting::kForWorkers, 10 * kSecond);
  meter.Waits(StreamMeter::Waiting::kForWorkers, 11 * kSecond);
  meter.Waits(StreamMeter::Waiting::kForTrainer, 12 * kSecond);
  meter.Waits(StreamMeter::Waiting::kForWorkers, 17 * kSecond);
  EXPECT_EQ(At(meter, 18 * kSecond).waiting_for_workers_seconds(), 3);
  EXPECT_EQ(meter.WaitedForWorkers(18 * kSecond), 3);
  EXPECT_EQ(At(meter, 18 * kSecond).waiting_for_trainer_seconds(), 5);
  EXPECT_EQ(At(meter, 20 * kSecond).waiting_for_workers_seconds(), 5) << "it goes on";
}

TEST(StreamMeterTest, CountsTheTimesBetweenBatches) {
  StreamMeter meter;
  meter.CountBatch(BatchOf(8), 5 * kSecond);
  meter.CountBatch(BatchOf(8), 7 * kSecond);
  meter.CountBatch(BatchOf(4), 20 * kSecond);
  const v1::StreamStatus status = At(meter, 30 * kSecond);
  EXPECT_EQ(status.samples_sent(), 20u);
  EXPECT_EQ(status.batch_gaps().sum(), 15);
  EXPECT_EQ(status.batch_gaps().bounds(9), 3);
  EXPECT_EQ(status.batch_gaps().counts(9), 1u) << "2 s";
  EXPECT_EQ(status.batch_gaps().counts(11), 1u) << "13 s, over the last bound";
}

TEST(StreamMeterTest, ATraceHasTheClientsWaitsAndItsBatches) {
  const auto log = std::make_shared<TraceLog>();
  v1::TracedStream stream;
  stream.set_id(7);
  StreamMeter meter;
  meter.SetTrace(StreamTrace(log, stream));
  meter.Waits(StreamMeter::Waiting::kForTrainer, kSecond);
  const uint64_t trace = log->Begin("", MonotonicNanos()).value();
  meter.NoteWait();
  meter.Waits(StreamMeter::Waiting::kForTrainer, 2 * kSecond);
  meter.Waits(StreamMeter::Waiting::kForWorkers, 3 * kSecond);
  meter.CountBatch(BatchOf(4, 41), 4 * kSecond);
  meter.NoteReturned(40);
  const v1::TraceResponse part = log->Take(trace).value();
  ASSERT_EQ(part.moments_size(), 4);
  EXPECT_EQ(part.moments(0).kind(), v1::TraceMoment::KIND_CLIENT_HAS_ALL);
  EXPECT_EQ(part.moments(1).kind(), v1::TraceMoment::KIND_CLIENT_WAITS);
  EXPECT_EQ(part.moments(2).kind(), v1::TraceMoment::KIND_BATCH_HANDED_OUT);
  EXPECT_EQ(part.moments(2).batch(), 41u);
  EXPECT_EQ(part.moments(3).kind(), v1::TraceMoment::KIND_BATCH_RETURNED);
  EXPECT_EQ(part.moments(3).batch(), 40u);
  for (const auto& moment : part.moments()) EXPECT_EQ(moment.stream(), 7u);
}

TEST(StreamMeterTest, OfAWaitForWorkersItKnowsHowLongTheyWaitedForObjects) {
  StreamMeter meter;
  meter.SetFetching(true, 5 * kSecond);
  meter.Waits(StreamMeter::Waiting::kForWorkers, 10 * kSecond);
  EXPECT_EQ(At(meter, 12 * kSecond).waiting_for_objects_seconds(), 2) << "it goes on";
  meter.SetFetching(false, 13 * kSecond);
  meter.Waits(StreamMeter::Waiting::kForTrainer, 15 * kSecond);
  meter.SetFetching(true, 16 * kSecond);  // ahead of the trainer
  meter.Waits(StreamMeter::Waiting::kForTrainer, 18 * kSecond);
  EXPECT_EQ(At(meter, 20 * kSecond).waiting_for_objects_seconds(), 3);
  EXPECT_EQ(At(meter, 20 * kSecond).waiting_for_workers_seconds(), 5);
  EXPECT_EQ(At(meter, 20 * kSecond).waiting_for_trainer_seconds(), 5);
}

}  // namespace
}  // namespace bulkhead::stream_meter_test

#include "tools/status/status_rates.h"

#include <gtest/gtest.h>

namespace bulkhead::tools {
namespace {

v1::StreamStatus& AddStream(v1::GetStatusResponse& status, const char* name, uint64_t samples,
                            double waits) {
  v1::StreamStatus& stream = *status.add_streams();
  stream.set_name(name);
  stream.set_samples_sent(samples);
  stream.set_batches_sent(samples / 10);
  stream.set_waiting_for_workers_seconds(waits);
  return stream;
}

void AddStage(v1::GetStatusResponse& status, uint32_t slot, const char* name, double busy,
              uint64_t runs) {
  v1::PlaceTotals& place = *status.add_places();
  place.set_pipeline("photos");
  place.set_slot(slot);
  place.set_samples(runs);
  v1::StageUsage& stage = *place.add_stages();
  stage.set_stage(name);
  stage.set_busy_seconds(busy);
  stage.set_runs(runs);
}

TEST(StatusRatesTest, AreThoseBetweenTheLooks) {
  v1::GetStatusResponse before;
  v1::GetStatusResponse now;
  AddStream(before, "train", 1000, 3);
  AddStream(now, "train", 1400, 4);
  now.set_samples_delivered(80);
  now.set_cpu_seconds(6);
  const StatusRates rates = RatesBetween(before, now, 4);
  EXPECT_EQ(rates.samples, 20);
  EXPECT_EQ(rates.cpus, 1.5);
  ASSERT_EQ(rates.streams.size(), 1u);
  EXPECT_EQ(rates.streams[0].samples, 100);
  EXPECT_EQ(rates.streams[0].batches, 10);
  EXPECT_EQ(rates.streams[0].waits_for_workers, 0.25);
}

TEST(StatusRatesTest, AStreamThatWasOpenedAgainCountsFromNothing) {
  v1::GetStatusResponse before;
  v1::GetStatusResponse now;
  AddStream(before, "train", 1000, 3);
  AddStream(now, "train", 1400, 4).mutable_opened()->set_seconds(7);
  EXPECT_EQ(RatesBetween(before, now, 4).streams[0].samples, 350);
}

TEST(StatusRatesTest, AnotherStartOfTheServiceCountsFromNothing) {
  v1::GetStatusResponse before;
  before.set_boot_id("one");
  before.set_samples_delivered(10);
  v1::GetStatusResponse now;
  now.set_boot_id("two");
  now.set_samples_delivered(80);
  EXPECT_EQ(RatesBetween(before, now, 4).samples, 20);
}

TEST(StatusRatesTest, StagesOfAllPlacesAddUpTheBusiestFirst) {
  v1::GetStatusResponse before;
  v1::GetStatusResponse now;
  AddStage(before, 0, "stages[0] python", 1, 100);
  AddStage(now, 0, "stages[0] python", 2, 200);
  AddStage(now, 1, "stages[0] python", 5, 100);
  AddStage(now, 1, "stages[1] resize", 2, 50);
  AddStage(now, 1, "source", 0, 0);
  const StatusRates rates = RatesBetween(before, now, 1);
  ASSERT_EQ(rates.pipelines.size(), 1u);
  const auto& stages = rates.pipelines[0].stages;
  ASSERT_EQ(stages.size(), 2u) << "the source did not run";
  EXPECT_EQ(stages[0].stage, "stages[0] python");
  EXPECT_EQ(stages[0].seconds_a_run, 0.03);
  EXPECT_EQ(stages[0].share, 0.75);
  EXPECT_EQ(stages[1].share, 0.25);
}

}  // namespace
}  // namespace bulkhead::tools

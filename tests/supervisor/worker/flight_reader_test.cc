#include "server/supervisor/worker/flight_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <utility>

#include "absl/time/clock.h"
#include "server/os/event_loop.h"

namespace bulkhead {
namespace {

using ::testing::IsEmpty;

const PipelineStages kStages = {
    {"stages[0] decode_image", "stages[1] python"}, {}, {"stages[0] decode_image"}};
constexpr uint32_t kThreads = 2;
constexpr uint32_t kMostThreads = 4;

class FlightReaderTest : public testing::Test {
 protected:
  FlightReaderTest() {
    header_ = &reader_.recorder().header();
    thread_ = &reader_.recorder().thread(0);
    reader_.recorder().SetStages(
        {"worker", "source", "stages[0] decode_image", "stages[1] python"});
  }

  FlightReader reader_{FlightRecorder::Create(kThreads).value(), kStages, kMostThreads};
  FlightHeader* header_;
  FlightThread* thread_;
};

TEST_F(FlightReaderTest, BelievesWhatCanBe) {
  absl::SleepFor(absl::Milliseconds(1));
  thread_->counters[2].live_bytes = 5000;
  thread_->counters[2].live_blocks = 3;
  thread_->counters[2].runs = 4;
  thread_->counters[2].allocations = 70;
  thread_->counters[2].busy_ns = 900'000;
  thread_->counters[3].live_bytes = -8000;  // freed there what others allocated
  thread_->samples = 4;
  thread_->counts[static_cast<size_t>(FlightCount::kMcusRead)] = 12;
  const FlightSnapshot flight = reader_.Read();
  EXPECT_EQ(flight.stages[2].name, "stages[0] decode_image");
  EXPECT_EQ(flight.stages[2].live_bytes, 5000);
  EXPECT_EQ(flight.stages[2].live_blocks, 3);
  EXPECT_EQ(flight.stages[2].runs, 4u);
  EXPECT_EQ(flight.stages[2].allocations, 70u);
  EXPECT_EQ(flight.stages[2].busy_seconds, 0.0009);
  EXPECT_EQ(flight.stages[3].live_bytes, -8000);
  EXPECT_EQ(flight.live_bytes, -3000);
  EXPECT_EQ(flight.samples, 4u);
  EXPECT_EQ(flight.Count(FlightCount::kMcusRead), 12u);
}

TEST_F(FlightReaderTest, AStageOfAnotherNameIsUnknownWhereverItIsNamed) {
  reader_.Read();
  std::strcpy(header_->names[2], "forged");
  std::strcpy(header_->names[4], "forged, too");
  header_->stage_count = 5;
  thread_->lease_id = 1;
  thread_->stage = 4;
  header_->refused_stage = 4;
  header_->wild_slot = 0;
  header_->wild_stage = 4;
  const FlightSnapshot flight = reader_.Read();
  EXPECT_EQ(flight.stages[2].name, "stages[0] decode_image") << "the first that was read";
  EXPECT_EQ(flight.stages.size(), 4u);
  EXPECT_EQ(flight.threads[0].stage, "unknown");
  EXPECT_EQ(flight.refused_stage, "unknown");
  EXPECT_EQ(flight.wild->stage, "unknown");
}

TEST_F(FlightReaderTest, AStageIsCountedOnce) {
  absl::SleepFor(absl::Milliseconds(1));
  reader_.recorder().SetStages({"worker", "source", "stages[0] decode_image", "source"});
  thread_->counters[1].runs = 3;
  thread_->counters[3].runs = 4;
  const FlightSnapshot flight = reader_.Read();
  ASSERT_EQ(flight.stages.size(), 3u);
  EXPECT_EQ(flight.stages[1].runs, 3u);
}

TEST_F(FlightReaderTest, StagesStayWhenTheirNumberIsTakenBack) {
  reader_.Read();
  header_->stage_count = 0;
  EXPECT_EQ(reader_.Read().stages.size(), 4u);
}

TEST_F(FlightReaderTest, ACounterThatWentBackStays) {
  absl::SleepFor(absl::Milliseconds(1));
  FlightCounters& counters = thread_->counters[2];
  counters.runs = counters.allocations = counters.busy_ns = thread_->samples = 100;
  thread_->counts[0] = 100;
  reader_.Read();
  counters.runs = counters.allocations = counters.busy_ns = thread_->samples = 99;
  thread_->counts[0] = 99;
  FlightSnapshot flight = reader_.Read();
  EXPECT_EQ(flight.stages[2].runs, 100u);
  EXPECT_EQ(flight.stages[2].allocations, 100u);
  EXPECT_EQ(flight.stages[2].busy_seconds, 100e-9);
  EXPECT_EQ(flight.samples, 100u);
  EXPECT_EQ(flight.counts[0], 100u);
  counters.runs = 101;
  flight = reader_.Read();
  EXPECT_EQ(flight.stages[2].runs, 101u);
}

TEST_F(FlightReaderTest, ACounterBeyondReasonStays) {
  const int64_t begun_ns = MonotonicNanos();
  FlightCounters& counters = thread_->counters[2];
  for (const uint64_t much :
       {std::numeric_limits<uint64_t>::max(), uint64_t{1} << 63, uint64_t{1} << 62}) {
    counters.runs = counters.allocations = counters.busy_ns = thread_->samples = much;
    for (auto& count : thread_->counts) count = much;
    const FlightSnapshot flight = reader_.Read();
    EXPECT_EQ(flight.stages[2].runs, 0u);
    EXPECT_EQ(flight.stages[2].allocations, 0u);
    EXPECT_EQ(flight.stages[2].busy_seconds, 0);
    EXPECT_EQ(flight.samples, 0u);
    for (const uint64_t count : flight.counts) EXPECT_EQ(count, 0u);
  }
  // Of several threads the sums wrap around.
  for (uint32_t i = 0; i < kThreads; ++i) {
    reader_.recorder().thread(i).counters[2].runs = uint64_t{1} << 63;
  }
  EXPECT_EQ(reader_.Read().stages[2].runs, 0u);
  // Four threads' time, a little of which has passed since, and not more.
  counters.busy_ns = kMostThreads * static_cast<uint64_t>(MonotonicNanos() - begun_ns);
  EXPECT_GT(reader_.Read().stages[2].busy_seconds, 0);
}

TEST_F(FlightReaderTest, CountsAreHeldToWhatTheTimeAllows) {
  const auto count = [&](FlightCount what) -> auto& {
    return thread_->counts[static_cast<size_t>(what)];
  };
  absl::SleepFor(absl::Milliseconds(1));
  // A hundred seconds' worth, and one that a millisecond has time for.
  const auto read = [&](uint64_t images, uint64_t runs, uint64_t allocations) {
    count(FlightCount::kCrops) = count(FlightCount::kFiles) = images;
    thread_->counters[2].runs = thread_->samples = runs;
    thread_->counters[2].allocations = allocations;
    return reader_.Read();
  };
  const FlightSnapshot beyond = read(100'000'000, 1'000'000'000, 10'000'000'000);
  EXPECT_EQ(beyond.Count(FlightCount::kCrops), 0u);
  EXPECT_EQ(beyond.Files(0), 0u);
  EXPECT_EQ(beyond.stages[2].runs, 0u);
  EXPECT_EQ(beyond.stages[2].allocations, 0u);
  EXPECT_EQ(beyond.samples, 0u);
  const FlightSnapshot within = read(1000, 10'000, 100'000);
  EXPECT_EQ(within.Count(FlightCount::kCrops), 1000u);
  EXPECT_EQ(within.Files(0), 1000u);
  EXPECT_EQ(within.stages[2].runs, 10'000u);
  EXPECT_EQ(within.stages[2].allocations, 100'000u);
  EXPECT_EQ(within.samples, 10'000u);
}

TEST_F(FlightReaderTest, WhatNoStageDoesIsNotCounted) {
  const PipelineStages stages = {{"stages[0] python"}, {}, {}};
  FlightReader blind(FlightRecorder::Create(kThreads).value(), stages, kMostThreads);
  absl::SleepFor(absl::Milliseconds(1));
  for (FlightReader* const reader : {&reader_, &blind}) {
    for (auto& count : reader->recorder().thread(0).counts) count = 5;
  }
  const FlightSnapshot decoding = reader_.Read();
  EXPECT_EQ(decoding.Files(0), 5u);
  EXPECT_EQ(decoding.Count(FlightCount::kKeptFound), 0u) << "there is no stage that keeps";
  for (const uint64_t count : blind.Read().counts) EXPECT_EQ(count, 0u);
}

TEST_F(FlightReaderTest, MemoryBeyondTheLimitIsNotBelieved) {
  FlightCounters& counters = thread_->counters[2];
  counters.live_bytes = counters.live_blocks = 1000;
  reader_.Read();
  const auto stays = [&](int64_t said) {
    counters.live_bytes = counters.live_blocks = said;
    const FlightSnapshot flight = reader_.Read();
    return flight.stages[2].live_bytes == 1000 && flight.stages[2].live_blocks == 1000 &&
           flight.live_bytes == 1000;
  };
  EXPECT_TRUE(stays(std::numeric_limits<int64_t>::max()));
  EXPECT_TRUE(stays(std::numeric_limits<int64_t>::min()));
  EXPECT_TRUE(stays((int64_t{1} << 47) + 1));
  reader_.LimitMemory(4096);
  EXPECT_TRUE(stays(4097));
  EXPECT_FALSE(stays(4096));
  reader_.LimitMemory(0);  // it could not be told
  EXPECT_FALSE(stays(4097));
}

TEST_F(FlightReaderTest, TimesAndAmountsThatNobodyCanReckonWithAreHeldToTheirRange) {
  const int64_t now_ns = MonotonicNanos();
  thread_->lease_id = 1;
  thread_->began_ns = std::numeric_limits<int64_t>::max();
  thread_->turn_ns = std::numeric_limits<int64_t>::min();
  thread_->began_live_bytes = std::numeric_limits<int64_t>::min();
  header_->refused_stage = 0;
  header_->refused_bytes = std::numeric_limits<uint64_t>::max();
  const FlightSnapshot flight = reader_.Read();
  EXPECT_LE(flight.threads[0].began_ns, MonotonicNanos());
  EXPECT_GT(flight.threads[0].turn_ns, 0);
  EXPECT_LE(flight.threads[0].turn_ns, now_ns);
  EXPECT_EQ(flight.threads[0].grown_bytes, 0);
  EXPECT_EQ(flight.refused_bytes, static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
}

TEST_F(FlightReaderTest, AC1ControlCharacterInASampleIsNoText) {
  thread_->lease_id = 1;
  reader_.recorder().NameSample(0, "a\xc2\x9b[2J\xc3\xa9");
  EXPECT_EQ(reader_.Read().threads[0].sample, "a??[2J\xc3\xa9");
  EXPECT_THAT(reader_.Read().threads[1].sample, IsEmpty());
}

}  // namespace
}  // namespace bulkhead

#include "server/supervisor/worker/stage_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace bulkhead {
namespace {

class StageTimesTest : public testing::Test {
 protected:
  // Does samples until one stage is slow or so many are done; the other stage takes 1 ms. Looks
  // every 20 ms. Returns the sentence. All takes `load_` times as long, as on a busy machine.
  std::string Run(uint64_t samples, const std::function<double(uint64_t)>& seconds_of) {
    if (flight_.stages.empty()) flight_.stages = {{"source"}, {"stages[0] resize"}};
    for (uint64_t end = done_ + samples; done_ < end; ++done_) {
      flight_.samples = done_ + 1;
      for (auto& stage : flight_.stages) ++stage.runs;
      const double seconds = seconds_of(done_);
      flight_.stages[0].busy_seconds += load_ * 0.001;
      flight_.stages[1].busy_seconds += load_ * seconds;
      waited_seconds_ += (load_ - 1) * (0.001 + seconds);
      now_ns_ += static_cast<int64_t>(load_ * (0.001 + seconds) * 1e9);
      if (now_ns_ < looked_ns_ + 20'000'000) continue;
      looked_ns_ = now_ns_;
      std::string slow = times_.Note(
          flight_, {{}, {"stages[2] cache"}, {"stages[1] decode_image"}}, 3,
          [&] {
            ++waits_read_;
            return waited_seconds_;
          },
          now_ns_);
      if (!slow.empty()) return slow;
    }
    return "";
  }

  StageTimes times_;
  FlightSnapshot flight_;
  double load_ = 1;
  double waited_seconds_ = 0;
  int waits_read_ = 0;
  uint64_t done_ = 0;
  int64_t now_ns_ = 0;
  int64_t looked_ns_ = 0;
};

TEST_F(StageTimesTest, AStageThatStaysSlowIsNamed) {
  EXPECT_EQ(Run(3000, [](uint64_t) { return 0.001; }), "");
  EXPECT_EQ(Run(3000, [](uint64_t) { return 0.0029; }), "");
  EXPECT_THAT(Run(3000, [](uint64_t) { return 0.004; }),
              testing::MatchesRegex("stages.0. resize takes 3.[0-9]+ ms a sample after 7[0-9]+, "
                                    "3.[0-9] times as long as in its first samples"));
}

// A mean of the first seconds would have drifted already.
TEST_F(StageTimesTest, ADriftIsNoticedWithinHalfAsManySamplesMore) {
  for (const double samples_to_threefold : {2'000.0, 10'000.0, 50'000.0}) {
    times_ = {};
    flight_ = {};
    done_ = 0;
    EXPECT_NE(Run(100'000,
                  [&](uint64_t n) {
                    return 0.001 * (1 + 2 * static_cast<double>(n) / samples_to_threefold);
                  }),
              "");
    EXPECT_GT(done_, samples_to_threefold);
    EXPECT_LE(done_, 1.5 * samples_to_threefold);
  }
}

TEST_F(StageTimesTest, AMomentOfSlownessIsAnAccident) {
  Run(3000, [](uint64_t) { return 0.001; });
  EXPECT_EQ(Run(100, [](uint64_t) { return 0.01; }), "");
  EXPECT_EQ(Run(3000, [](uint64_t) { return 0.001; }), "");
}

TEST_F(StageTimesTest, RareSlowSamplesAreNoSlowness) {
  EXPECT_EQ(Run(20'000, [](uint64_t n) { return n % 300 == 299 ? 1.0 : 0.001; }), "");
}

TEST_F(StageTimesTest, SamplesThatDifferAreNoSlowness) {
  std::mt19937 random(4711);
  std::exponential_distribution<double> seconds(1 / 0.002);
  EXPECT_EQ(Run(50'000, [&](uint64_t) { return seconds(random); }), "");
}

TEST_F(StageTimesTest, ASlowStartIsNotWhatAStageIsLikeWhenNew) {
  EXPECT_EQ(Run(40, [](uint64_t) { return 0.05; }), "");
  EXPECT_EQ(Run(3000, [](uint64_t) { return 0.001; }), "");
  EXPECT_NE(Run(3000, [](uint64_t) { return 0.005; }), "");
}

TEST_F(StageTimesTest, ABusyMachineIsNoSlowness) {
  Run(3000, [](uint64_t) { return 0.001; });
  load_ = 5;
  EXPECT_EQ(Run(20'000, [](uint64_t) { return 0.001; }), "");
}

TEST_F(StageTimesTest, AStageThatWasNewOnABusyMachineIsNamedWhenItIsSlow) {
  load_ = 5;
  EXPECT_EQ(Run(20'000, [](uint64_t) { return 0.001; }), "");
  EXPECT_NE(Run(20'000, [](uint64_t) { return 0.005; }), "");
}

TEST_F(StageTimesTest, ASlowStageIsNamedOnABusyMachineToo) {
  Run(3000, [](uint64_t) { return 0.001; });
  load_ = 5;
  EXPECT_THAT(Run(20'000, [](uint64_t) { return 0.004; }),
              testing::HasSubstr("stages[0] resize takes"));
}

// Its own threads may wait for each other all the time.
TEST_F(StageTimesTest, WaitingForACpuExplainsOnlySoMuch) {
  Run(3000, [](uint64_t) { return 0.001; });
  const std::string slow = Run(5000, [&](uint64_t) {
    waited_seconds_ += 0.2;
    return 0.1;
  });
  EXPECT_THAT(slow, testing::HasSubstr("stages[0] resize takes"));
}

TEST_F(StageTimesTest, TheWaitIsReadOnceASecondAtMost) {
  Run(30'000, [](uint64_t) { return 0.001; });
  EXPECT_LE(waits_read_, 65);
}

TEST_F(StageTimesTest, StagesAreNotJudgedByTheirDiskOrCache) {
  for (const char* name : {"stages[2] cache", "source", "stages[1] decode_image", "worker"}) {
    times_ = {};
    flight_ = {};
    flight_.stages = {{"stages[0] decode_image"}, {name}};
    done_ = 0;
    Run(3000, [](uint64_t) { return 0.001; });
    EXPECT_EQ(Run(5000, [](uint64_t) { return 0.01; }), "") << name;
  }
}

TEST_F(StageTimesTest, ShortStagesSayNothing) {
  Run(3000, [](uint64_t) { return 0.00001; });
  EXPECT_EQ(Run(20'000, [](uint64_t) { return 0.0001; }), "") << "0.1 ms is not worth the trouble";
}

}  // namespace
}  // namespace bulkhead

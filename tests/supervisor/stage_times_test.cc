#include "server/supervisor/worker/stage_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bulkhead {
namespace {

class StageTimesTest : public testing::Test {
 protected:
  // Six seconds in which 600 samples take so long in the one stage, and 1 ms in the other.
  std::string Window(double seconds_per_sample, uint64_t samples = 600) {
    if (flight_.stages.empty()) flight_.stages = {{"source"}, {"stages[0] resize"}};
    flight_.samples += samples;
    for (auto& stage : flight_.stages) stage.runs += samples;
    flight_.stages[0].busy_seconds += 0.001 * static_cast<double>(samples);
    flight_.stages[1].busy_seconds += seconds_per_sample * static_cast<double>(samples);
    now_ns_ += 6'000'000'000;
    return times_.Note(flight_, 3, now_ns_);
  }

  StageTimes times_;
  FlightSnapshot flight_;
  int64_t now_ns_ = 0;
};

TEST_F(StageTimesTest, AStageThatStaysSlowIsNamed) {
  EXPECT_EQ(Window(0.001), "");  // its beginning
  EXPECT_EQ(Window(0.001), "");  // when it was new
  EXPECT_EQ(Window(0.0029), "");
  EXPECT_EQ(Window(0.0031), "");
  EXPECT_THAT(Window(0.004), testing::AllOf(testing::HasSubstr("stages[0] resize takes 4.00 ms"),
                                            testing::HasSubstr("4.0 times")));
}

TEST_F(StageTimesTest, OneSlowWindowIsAnAccident) {
  Window(0.001);
  Window(0.001);
  EXPECT_EQ(Window(0.01), "");
  EXPECT_EQ(Window(0.001), "");
  EXPECT_EQ(Window(0.01), "");
}

TEST_F(StageTimesTest, ACacheStageIsAsSlowAsItsDisk) {
  flight_.stages = {{"source"}, {"stages[2] cache"}};
  Window(0.001);
  Window(0.001);
  EXPECT_EQ(Window(0.01), "");
  EXPECT_EQ(Window(0.01), "");
}

TEST_F(StageTimesTest, FewSamplesAndShortStagesSayNothing) {
  Window(0.00001);
  Window(0.00001);
  EXPECT_EQ(Window(0.0001), "");
  EXPECT_EQ(Window(0.0001), "") << "0.1 ms is not worth the trouble";
  EXPECT_EQ(Window(1, 100), "");
  EXPECT_EQ(Window(1, 100), "") << "200 samples are no window";
}

}  // namespace
}  // namespace bulkhead

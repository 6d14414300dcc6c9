#include "server/supervisor/tuning/worker_tuner.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>

namespace bulkhead {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

constexpr double kTick = 0.5;  // seconds
constexpr double kFast = 1e9;  // samples a second: a trainer that always waits

// A pool of workers and a trainer, each with a speed, and the tuner of their number.
class TunerTest : public testing::Test {
 protected:
  // What happens in one tick; the last decision is kept.
  void Tick() {
    const double capacity = capacity_(workers_);
    const double made = std::min(capacity, trainer_);
    TuningReading reading;
    reading.seconds = kTick;
    reading.workers = workers_;
    rest_ += made * kTick * noise_();
    reading.samples = static_cast<uint64_t>(rest_);
    rest_ -= static_cast<double>(reading.samples);
    const double used = capacity > 0 ? made / capacity : 0;
    reading.waited = kTick * (trainer_ == 0 ? 0 : used);
    reading.busy = kTick * busy_ * used;
    reading.cpu_seconds = kTick * cpus_of_one_ * workers_ * used;
    reading.steady = steady_;
    if (!has_room_) reading.no_room = "the memory budget has 1MiB left";
    const auto decision = tuner_->Note(reading);
    seconds_ += kTick;
    if (!decision.has_value()) return;
    last_ = *decision;
    if (decision->change != 0) ++changes_;
    if (adds_ || decision->change < 0) workers_ += decision->change;
    most_seen_ = std::max(most_seen_, workers_);
    least_seen_ = std::min(least_seen_, workers_);
  }
  void Run(double seconds) {
    for (double passed = 0; passed < seconds; passed += kTick) Tick();
  }
  // The seconds until there are so many workers; at most 1000.
  double Reaches(uint32_t workers) {
    const double begun = seconds_;
    while (workers_ != workers && seconds_ - begun < 1000) Tick();
    return seconds_ - begun;
  }
  // Each worker makes so many samples a second, as long as there are at most `most`.
  static std::function<double(uint32_t)> Each(double rate, uint32_t most = 1000) {
    return [=](uint32_t workers) { return rate * std::min(workers, most); };
  }

  std::optional<WorkerTuner> tuner_{TuningLimits{2, 8, 2}};
  uint32_t workers_ = 2;
  std::function<double(uint32_t)> capacity_ = Each(100);
  double trainer_ = kFast;
  double busy_ = 1;         // share of the time that workers spend in stages while they have leases
  double cpus_of_one_ = 0;  // that a busy worker uses
  bool steady_ = true;
  bool has_room_ = true;
  bool adds_ = true;  // further workers can be had
  std::function<double()> noise_ = [] { return 1.0; };
  double rest_ = 0;
  double seconds_ = 0;
  TuningDecision last_;
  int changes_ = 0;
  uint32_t most_seen_ = 2;
  uint32_t least_seen_ = 1000;
};

TEST_F(TunerTest, WhileAClientWaitsThereAreMoreWorkersAsLongAsTheyHelp) {
  EXPECT_THAT(Reaches(8), Le(60)) << "workers that wait use no CPU";
  Run(10);
  EXPECT_EQ(workers_, 8u);
  EXPECT_EQ(last_.state, v1::TUNING_STATE_MOST);
  EXPECT_THAT(
      last_.text,
      HasSubstr("a client waits for 100 % of the time, but a pipeline gets at most 8 workers"));
}

TEST_F(TunerTest, WorkersThatDoNotHelpGo) {
  capacity_ = Each(100, 4);
  EXPECT_THAT(Reaches(5), Le(60));
  Run(10);
  EXPECT_EQ(workers_, 4u);
  EXPECT_EQ(last_.state, v1::TUNING_STATE_NO_GAIN);
  EXPECT_EQ(last_.text, "5 workers made 400 samples a second, 4 made 400");
}

TEST_F(TunerTest, AStepThatDidNotHelpIsTriedAgainMoreAndMoreRarely) {
  capacity_ = Each(100, 4);
  Reaches(5);
  const double first = Reaches(4) + Reaches(5);
  EXPECT_THAT(first, AllOf(Ge(60), Le(70)));
  const double second = Reaches(4) + Reaches(5);
  EXPECT_THAT(second, AllOf(Ge(120), Le(130)));
  Run(4 * 3600);
  changes_ = 0;
  Run(4 * 3600);
  EXPECT_THAT(changes_, Le(2 * 8)) << "at last every half hour";
}

TEST_F(TunerTest, AStepThatDidNotHelpIsTriedAgainSoonIfTheLoadChanged) {
  capacity_ = Each(100, 4);
  Reaches(5);
  Reaches(4);
  capacity_ = Each(50);
  EXPECT_THAT(Reaches(5), Le(20));
}

TEST_F(TunerTest, SmallGainsCountAndNoiseDoesNot) {
  capacity_ = [](uint32_t workers) { return workers <= 2 ? 100.0 : 106.0; };
  Reaches(3);
  Run(5);
  EXPECT_THAT(workers_, Ge(3u)) << "6 % more";
  capacity_ = [](uint32_t workers) { return workers <= 3 ? 106.0 : 107.0; };
  Run(20);
  EXPECT_EQ(workers_, 3u) << "1 % more";
}

TEST_F(TunerTest, WhereTheCpusAreUsedNoMoreWorkersAreTried) {
  cpus_of_one_ = 0.98;
  Run(60);
  EXPECT_EQ(most_seen_, 2u);
  EXPECT_EQ(last_.state, v1::TUNING_STATE_CPUS);
  EXPECT_THAT(last_.text, HasSubstr("but workers use or wait for 2 of 2 CPUs"));
  cpus_of_one_ = 0.5;
  EXPECT_THAT(Reaches(4), Le(60));
  Run(60);
  EXPECT_EQ(workers_, 4u) << "these use them";
}

TEST_F(TunerTest, WhereTheBudgetHasNoRoomNoMoreWorkersAreTried) {
  has_room_ = false;
  Run(60);
  EXPECT_EQ(most_seen_, 2u);
  EXPECT_EQ(last_.state, v1::TUNING_STATE_MEMORY);
  EXPECT_THAT(last_.text, HasSubstr("of the time, but the memory budget has 1MiB left"));
  has_room_ = true;
  EXPECT_THAT(Reaches(3), Le(5));
}

TEST_F(TunerTest, WorkersThatWaitThemselvesAreEnough) {
  busy_ = 0.5;
  Run(60);
  EXPECT_EQ(most_seen_, 2u);
  EXPECT_EQ(last_.state, v1::TUNING_STATE_WORKERS_WAIT);
}

TEST_F(TunerTest, AClientThatDoesNotWaitLeavesAllAsItIs) {
  trainer_ = 150;  // of 200
  Run(60);
  EXPECT_EQ(changes_, 0);
  EXPECT_EQ(last_.state, v1::TUNING_STATE_ENOUGH);
  EXPECT_THAT(last_.text, HasSubstr("2 workers are busy for 75 %"));
}

TEST_F(TunerTest, WorkersThatNobodyNeedsGoOneByOne) {
  workers_ = 8;
  trainer_ = 250;  // which three would do, if none ever died
  EXPECT_THAT(Reaches(7), Ge(WorkerTuner::kEasyWindows * WorkerTuner::kWindowSeconds));
  Run(120);
  EXPECT_EQ(workers_, 4u) << "three would be busy for 83 %";
  trainer_ = 10;
  Run(120);
  EXPECT_EQ(workers_, 2u) << "the least";
}

TEST_F(TunerTest, AWorkerThatIsMissedComesBackAndStays) {
  workers_ = 4;
  trainer_ = 150;
  Reaches(3);
  trainer_ = kFast;
  EXPECT_THAT(Reaches(4), Le(5)) << "without a trial";
  EXPECT_EQ(last_.state, v1::TUNING_STATE_TRYING);
  trainer_ = 150;
  least_seen_ = 1000;
  Run(55);
  EXPECT_EQ(least_seen_, 4u);
  Run(30);
  EXPECT_EQ(least_seen_, 3u);
}

TEST_F(TunerTest, ATrainerThatPausesSaysNothing) {
  workers_ = 8;
  trainer_ = 0;
  Run(600);
  EXPECT_EQ(changes_, 0);
}

TEST_F(TunerTest, ATrainerThatPausesDoesNotDecideATrial) {
  for (const double pause : {3.0, 9.0, 30.0, 600.0}) {
    tuner_.emplace(TuningLimits{2, 8, 2});
    workers_ = 2;
    Reaches(3);
    trainer_ = 0;
    least_seen_ = 1000;
    Run(pause);
    trainer_ = kFast;
    Run(WorkerTuner::kWindowSeconds);
    EXPECT_THAT(least_seen_, Ge(3u)) << pause;
    EXPECT_THAT(Reaches(8), Le(60)) << "the third helped, and so do others; after " << pause;
    EXPECT_THAT(least_seen_, Ge(3u)) << pause;
  }
}

TEST_F(TunerTest, ASlowSampleOfATrainerThatPausesDoesNotDecideATrialEither) {
  capacity_ = Each(10);  // a window is full after ten seconds
  Reaches(3);
  Run(1);
  trainer_ = 0;
  Run(60);
  trainer_ = kFast;
  least_seen_ = 1000;
  EXPECT_THAT(Reaches(4), Le(25));
  EXPECT_THAT(least_seen_, Ge(3u));
}

TEST_F(TunerTest, ATrainerThatGoesOnMoreSlowlyGivesTheWorkerOfATrialBack) {
  Reaches(3);
  trainer_ = 50;
  EXPECT_THAT(Reaches(2), Le(30));
  EXPECT_EQ(last_.state, v1::TUNING_STATE_FEWER);
  trainer_ = kFast;
  EXPECT_THAT(Reaches(3), Le(10)) << "it is in no bar's way";
}

TEST_F(TunerTest, ATrainerWithLongStepsDoesNotPause) {
  workers_ = 8;
  for (int step = 0; step < 100; ++step) {
    trainer_ = 600;
    Tick();
    trainer_ = 0;
    Run(2.5);
  }
  EXPECT_EQ(workers_, 2u);
}

TEST_F(TunerTest, WhileWorkersStartOrEndNothingIsJudged) {
  steady_ = false;
  Run(30);
  EXPECT_EQ(changes_, 0);
  steady_ = true;
  Reaches(3);
  steady_ = false;
  Run(10);
  EXPECT_EQ(workers_, 3u);
  Run(60);
  EXPECT_EQ(workers_, 2u) << "the third does not come up";
  EXPECT_EQ(last_.text, "further workers did not come up within 60 s");
}

TEST_F(TunerTest, WorkersThatCannotBeHadAreNoTrial) {
  adds_ = false;
  Run(6);
  EXPECT_EQ(last_.change, 1) << "it tries on";
  has_room_ = false;
  Run(10);
  EXPECT_EQ(last_.state, v1::TUNING_STATE_MEMORY);
  EXPECT_EQ(last_.change, 0);
}

TEST_F(TunerTest, WorkersThatOthersNeededAreNotMissedByATrial) {
  Reaches(3);
  workers_ = 2;
  has_room_ = false;
  Run(20);
  EXPECT_EQ(workers_, 2u);
  EXPECT_EQ(last_.state, v1::TUNING_STATE_MEMORY);
}

TEST_F(TunerTest, APoolOfManyWorkersGrowsByAQuarter) {
  tuner_.emplace(TuningLimits{2, 256, 64});
  workers_ = 64;
  EXPECT_THAT(Reaches(256), Le(60));
}

TEST_F(TunerTest, SlowSamplesTakeLongerToJudge) {
  capacity_ = Each(4, 3);
  EXPECT_THAT(Reaches(3), Ge(WorkerTuner::kLongestWindow));
  Run(200);
  EXPECT_EQ(workers_, 3u);
}

TEST_F(TunerTest, FindsTheSameOnANoisyMachine) {
  capacity_ = Each(100, 4);
  int wrong = 0;
  for (int seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    noise_ = [&random] { return std::normal_distribution<double>(1, 0.02)(random); };
    tuner_.emplace(TuningLimits{2, 8, 2});
    workers_ = 2;
    Run(60);
    EXPECT_THAT(workers_, AllOf(Ge(4u), Le(6u))) << "seed " << seed;
    wrong += workers_ > 5 ? 1 : 0;
  }
  EXPECT_THAT(wrong, Le(5));
}

}  // namespace
}  // namespace bulkhead

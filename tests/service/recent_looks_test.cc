#include "server/service/recent_looks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bulkhead {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kOneSecond = 1'000'000'000;
constexpr uint64_t kOneMiB = 1 << 20;

// A pipeline of a worker with two stages and one stream.
class RecentLooksTest : public testing::Test {
 protected:
  RecentLooksTest() {
    v1::StreamStatus& stream = *status_.add_streams();
    stream.set_name("train");
    stream.set_pipeline("photos");
    v1::WorkerStatus& worker = *status_.add_workers();
    worker.set_pipeline("photos");
    worker.set_state(v1::WORKER_STATE_BUSY);
    worker.set_quota_bytes(100 * kOneMiB);
    v1::PlaceTotals& place = *status_.add_places();
    place.set_pipeline("photos");
    place.add_stages()->set_stage("stages[0] decode_image");
    place.add_stages()->set_stage("stages[1] python");
    status_.mutable_memory()->set_budget_bytes(1000 * kOneMiB);
    status_.mutable_memory()->set_quota_bytes(100 * kOneMiB);
    status_.mutable_memory()->set_arena_bytes(550 * kOneMiB);
  }

  // Time passes: the workers were waited for, and the stages were busy, for so long of it.
  void Pass(double waited, double decode = 0, double python = 0) {
    v1::StreamStatus& stream = *status_.mutable_streams(0);
    stream.set_waiting_for_workers_seconds(stream.waiting_for_workers_seconds() + waited);
    auto& stages = *status_.mutable_places(0)->mutable_stages();
    stages[0].set_busy_seconds(stages[0].busy_seconds() + decode);
    stages[1].set_busy_seconds(stages[1].busy_seconds() + python);
  }
  std::string WhyAt(int64_t now_ns) {
    v1::GetStatusResponse answer = status_;
    looks_.Explain(now_ns, answer);
    return answer.streams(0).why();
  }

  v1::GetStatusResponse status_;
  RecentLooks looks_{4};
};

TEST_F(RecentLooksTest, NamesTheStageAndTheRoomForMoreWorkers) {
  EXPECT_EQ(WhyAt(kOneSecond), "") << "nobody looked before";
  Pass(3.1, 1, 4);
  EXPECT_EQ(WhyAt(11 * kOneSecond),
            "waits for workers 31 % of the last 10 s: stages[1] python takes 80 % of their time; 3 "
            "more workers fit the memory budget");
}

TEST_F(RecentLooksTest, WorkersThatKeepUpWaitForTheTrainer) {
  WhyAt(kOneSecond);
  Pass(0.1, 1, 4);
  EXPECT_EQ(WhyAt(11 * kOneSecond),
            "waits for the trainer 99 % of the last 10 s: the workers keep up");
}

TEST_F(RecentLooksTest, TellsTheLastSecondsOnly) {
  WhyAt(kOneSecond);
  Pass(100, 0, 100);
  WhyAt(101 * kOneSecond);
  Pass(1, 2, 0);
  EXPECT_THAT(WhyAt(103 * kOneSecond),
              HasSubstr("50 % of the last 2 s: stages[0] decode_image takes 100 %"));
}

TEST_F(RecentLooksTest, ALookOfAMomentAgoTellsNothing) {
  WhyAt(kOneSecond);
  Pass(1);
  EXPECT_EQ(WhyAt(kOneSecond + kOneSecond / 2), "");
  Pass(1);
  EXPECT_THAT(WhyAt(5 * kOneSecond), HasSubstr("of the last 4 s")) << "since the first look";
}

TEST_F(RecentLooksTest, ManyLooksLeaveOneThatIsOldEnough) {
  for (int i = 0; i < 30; ++i) {  // ten a second
    WhyAt(kOneSecond + i * kOneSecond / 10);
    Pass(0.05);
  }
  EXPECT_THAT(WhyAt(4 * kOneSecond), HasSubstr("waits for workers 50 % of the last 1 s"));
}

TEST_F(RecentLooksTest, TheLastOfTwoLooksCounts) {
  v1::GetStatusResponse empty;
  looks_.Explain(kOneSecond, empty);
  WhyAt(kOneSecond + kOneSecond / 10);
  Pass(1);
  EXPECT_THAT(WhyAt(4 * kOneSecond), HasSubstr("waits for workers"));
}

TEST_F(RecentLooksTest, ALookOfLongAgoTellsNothing) {
  WhyAt(kOneSecond);
  EXPECT_EQ(WhyAt(70 * kOneSecond), "");
}

TEST_F(RecentLooksTest, AStreamThatWasNotThereIsNotExplained) {
  WhyAt(kOneSecond);
  status_.mutable_streams(0)->mutable_opened()->set_seconds(5);
  EXPECT_EQ(WhyAt(11 * kOneSecond), "") << "it was opened again";
}

TEST_F(RecentLooksTest, NoWorkerServesWhileAllStart) {
  WhyAt(kOneSecond);
  status_.mutable_workers(0)->set_state(v1::WORKER_STATE_BACKOFF);
  Pass(10);
  EXPECT_THAT(WhyAt(11 * kOneSecond),
              HasSubstr("no worker serves: they start, or wait for a restart"));
}

TEST_F(RecentLooksTest, MoreWorkersDoNotHelpWhenAllCpusAreUsed) {
  WhyAt(kOneSecond);
  status_.set_cpu_seconds(39);
  Pass(10, 1, 1);
  EXPECT_THAT(WhyAt(11 * kOneSecond), HasSubstr("; the service uses all 4 CPUs"));
}

TEST_F(RecentLooksTest, NoMoreWorkersAreAdvisedThanTheCpusKeepBusy) {
  WhyAt(kOneSecond);
  status_.set_cpu_seconds(24);  // 2.4 of 4, and the budget holds 3 more
  Pass(10, 1, 1);
  EXPECT_THAT(WhyAt(11 * kOneSecond),
              HasSubstr("; 2 more workers fit the CPUs and the memory budget"));
}

TEST_F(RecentLooksTest, SaysThatNoWorkerFits) {
  WhyAt(kOneSecond);
  status_.mutable_memory()->set_supervisor_bytes(300 * kOneMiB);
  Pass(10, 1, 1);
  EXPECT_THAT(WhyAt(11 * kOneSecond), HasSubstr("; no further worker fits the memory budget"));
}

TEST_F(RecentLooksTest, AShortWaitCallsForNoWorker) {
  WhyAt(kOneSecond);
  Pass(0.6, 0.2, 0.2);
  const std::string why = WhyAt(11 * kOneSecond);
  EXPECT_THAT(why, HasSubstr("waits for workers 6 % of the last 10 s: stages[0] decode_image"));
  EXPECT_THAT(why, testing::Not(HasSubstr("more workers")));
}

TEST_F(RecentLooksTest, ASilentSupervisorIsNoLook) {
  WhyAt(kOneSecond);
  v1::GetStatusResponse silent;
  silent.set_supervisor_silent_seconds(6);
  looks_.Explain(5 * kOneSecond, silent);
  Pass(5);
  EXPECT_THAT(WhyAt(11 * kOneSecond), HasSubstr("of the last 10 s"));
}

TEST_F(RecentLooksTest, NamesTheObjectStoreAndItsSpeed) {
  WhyAt(kOneSecond);
  Pass(8, 1, 1);
  status_.mutable_streams(0)->set_waiting_for_objects_seconds(7.5);
  status_.mutable_object_reads()->set_bytes_fetched(20 * kOneMiB);
  status_.mutable_object_reads()->set_requests(50);
  EXPECT_EQ(WhyAt(11 * kOneSecond),
            "waits for the object store 75 % of the last 10 s: 2MiB/s came, by 50 requests");
  Pass(8, 1, 1);
  status_.mutable_streams(0)->set_waiting_for_objects_seconds(9);
  EXPECT_THAT(WhyAt(21 * kOneSecond), HasSubstr("waits for workers 80 %")) << "for the most part";
  Pass(8);
  status_.mutable_streams(0)->set_waiting_for_objects_seconds(17);
  status_.mutable_object_reads()->set_requests(53);
  status_.mutable_object_reads()->set_retries(3);
  EXPECT_THAT(WhyAt(31 * kOneSecond), HasSubstr("by 3 requests, 3 repeated"));
}

}  // namespace
}  // namespace bulkhead

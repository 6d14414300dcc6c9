#include "server/supervisor/blame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;

// A worker of two leases with a thread at each.
class BlameTest : public testing::Test {
 protected:
  BlameTest() {
    for (uint64_t i = 0; i < 2; ++i) {
      held_.push_back({/*stream_id=*/7, /*lease_id=*/10 + i, /*samples=*/16, /*shared=*/false});
      FlightSnapshot::Thread thread;
      thread.stream_id = 7;
      thread.lease_id = 10 + i;
      thread.began_ns = static_cast<int64_t>(i + 1) * kSecond;
      flight_.threads.push_back(thread);
    }
  }

  std::vector<Suspicion> Suspicions(v1::ExitCause cause) {
    return SuspicionsOf({cause, held_, flight_, /*quota_bytes=*/400, grown_, hung_, /*begun=*/2});
  }
  // Of the suspicions: the lease's number, and an exclamation mark where it was by itself.
  std::vector<std::string> Told(v1::ExitCause cause) {
    std::vector<std::string> told;
    for (const Suspicion& one : Suspicions(cause)) {
      told.push_back(std::to_string(one.held) + (one.by_itself ? "!" : ""));
    }
    return told;
  }

  std::deque<PoolWorker::Held> held_;
  FlightSnapshot flight_;
  std::vector<uint64_t> grown_ = {0, 0};
  std::vector<int64_t> hung_;
};

TEST_F(BlameTest, ACrashMayBeOfAnyThreadsDoing) {
  EXPECT_THAT(Told(v1::EXIT_CAUSE_CRASHED), ElementsAre("0!", "1!"));
}

TEST_F(BlameTest, AKillFromOutsideIsNobodysDoing) {
  EXPECT_THAT(Told(v1::EXIT_CAUSE_KILLED), ElementsAre("0", "1"));
}

TEST_F(BlameTest, MemoryCountsAgainstTheSampleThatTookMuchOfIt) {
  grown_ = {50, 101};
  EXPECT_THAT(Told(v1::EXIT_CAUSE_WATCHDOG), ElementsAre("0", "1!"));
  flight_.refused_thread = 1;
  EXPECT_THAT(Told(v1::EXIT_CAUSE_OUT_OF_MEMORY), ElementsAre("1!"));
}

TEST_F(BlameTest, AHangCountsAgainstTheThreadThatHung) {
  hung_ = HungThreads(flight_, absl::Seconds(5), /*now_ns=*/6 * kSecond + kSecond / 2);
  EXPECT_THAT(hung_, ElementsAre(kSecond, 0));
  EXPECT_THAT(Told(v1::EXIT_CAUSE_HUNG), ElementsAre("0!"));
  EXPECT_TRUE(Suspicions(v1::EXIT_CAUSE_HUNG)[0].hung);
}

TEST_F(BlameTest, AThreadThatWentOnBeforeTheEndDidNotHang) {
  hung_ = HungThreads(flight_, absl::Seconds(5), /*now_ns=*/6 * kSecond + kSecond / 2);
  flight_.threads[0].began_ns = 6 * kSecond;
  EXPECT_THAT(Told(v1::EXIT_CAUSE_HUNG), ElementsAre("0", "1"));
}

TEST_F(BlameTest, ARecordThatIsBeingReadIsNotToBlameForAHang) {
  flight_.threads[0].reads = true;
  hung_ = {kSecond, 0};
  EXPECT_THAT(Told(v1::EXIT_CAUSE_HUNG), ElementsAre("0"));
  EXPECT_TRUE(Suspicions(v1::EXIT_CAUSE_HUNG)[0].hung);
}

TEST_F(BlameTest, WhoWaitsForTheInterpreterDoesNotHang) {
  flight_.threads[0].turn = FlightTurn::kWaiting;
  flight_.threads[1].turn = FlightTurn::kInside;
  flight_.threads[1].turn_ns = 4 * kSecond;  // it had waited, too
  EXPECT_THAT(HungThreads(flight_, absl::Seconds(5), 8 * kSecond), ElementsAre(0, 0));
  EXPECT_THAT(HungThreads(flight_, absl::Seconds(5), 10 * kSecond), ElementsAre(0, 4 * kSecond));
}

TEST_F(BlameTest, WhoIsAtNoSampleDoesNotHang) {
  flight_.threads[0].lease_id = 0;
  flight_.threads[1].began_ns = 100 * kSecond;  // whatever a worker may write
  EXPECT_THAT(HungThreads(flight_, absl::Seconds(5), 50 * kSecond), ElementsAre(0, 0));
}

TEST_F(BlameTest, WithoutAThreadsWordTheLeasesThatWereBegunAreSuspects) {
  flight_.threads.clear();
  EXPECT_THAT(Told(v1::EXIT_CAUSE_CRASHED), ElementsAre("0", "1"));
  EXPECT_FALSE(Suspicions(v1::EXIT_CAUSE_CRASHED)[0].thread.has_value());
  held_.clear();
  EXPECT_THAT(Told(v1::EXIT_CAUSE_CRASHED), IsEmpty());
}

TEST_F(BlameTest, OfSeveralThreadsAtALeaseTheOneThatDidItSpeaks) {
  flight_.threads[1].lease_id = 10;
  grown_ = {0, 200};
  const auto suspicions = Suspicions(v1::EXIT_CAUSE_WATCHDOG);
  ASSERT_EQ(suspicions.size(), 1);
  EXPECT_EQ(suspicions[0].thread, 1);
  EXPECT_TRUE(suspicions[0].by_itself);
}

}  // namespace
}  // namespace bulkhead

#include "server/image/codecs/decode_allowance.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace bulkhead {
namespace {

// A thread that takes a share, says so, and gives it back when it is told to.
class Taker {
 public:
  Taker(DecodeAllowance* allowance, uint64_t bytes, uint64_t then = 0)
      : thread_([=, this] {
          DecodeShare share;
          share.SetAllowance(allowance);
          share.Take(bytes);
          took_.Notify();
          if (then > 0) {
            go_on_.WaitForNotification();
            share.Take(then);
            took_more_.Notify();
          }
          end_.WaitForNotification();
          share.GiveBack();
        }) {}
  ~Taker() {
    if (thread_.joinable()) End();
  }

  bool took() const { return took_.HasBeenNotified(); }
  bool took_more() const { return took_more_.HasBeenNotified(); }
  void AwaitTook() { took_.WaitForNotification(); }
  void GoOn() { go_on_.Notify(); }
  void AwaitTookMore() { took_more_.WaitForNotification(); }
  void End() {
    end_.Notify();
    thread_.join();
  }

 private:
  absl::Notification took_;
  absl::Notification go_on_;
  absl::Notification took_more_;
  absl::Notification end_;
  std::thread thread_;
};

void AwaitWaiting(const DecodeAllowance& allowance, size_t count) {
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (allowance.waiting() != count && absl::Now() < deadline) std::this_thread::yield();
  ASSERT_EQ(allowance.waiting(), count);
}

TEST(DecodeAllowanceTest, AThreadWaitsWhileOthersHoldTooMuch) {
  DecodeAllowance allowance(100, 4);
  Taker first(&allowance, 40);
  first.AwaitTook();
  Taker second(&allowance, 60);
  second.AwaitTook();
  Taker third(&allowance, 30);
  AwaitWaiting(allowance, 1);
  EXPECT_FALSE(third.took());
  first.End();
  third.AwaitTook();
  EXPECT_EQ(allowance.waiting(), 0u);
}

TEST(DecodeAllowanceTest, AnImageThatNeedsMoreThanThereIsRunsAlone) {
  DecodeAllowance allowance(100, 4);
  Taker small(&allowance, 10);
  small.AwaitTook();
  Taker huge(&allowance, 1000);
  AwaitWaiting(allowance, 1);
  EXPECT_FALSE(huge.took());
  // Who comes later does not pass it, though there is room.
  Taker late(&allowance, 10);
  AwaitWaiting(allowance, 2);
  small.End();
  huge.AwaitTook();
  EXPECT_FALSE(late.took());
  huge.End();
  late.AwaitTook();
}

TEST(DecodeAllowanceTest, HoldersThatAllNeedMoreGoOnOneAfterAnother) {
  DecodeAllowance allowance(100, 4);
  Taker first(&allowance, 50, 50);
  first.AwaitTook();
  Taker second(&allowance, 50, 50);
  second.AwaitTook();
  first.GoOn();
  AwaitWaiting(allowance, 1);
  EXPECT_FALSE(first.took_more());
  second.GoOn();  // now nobody is left to give anything back
  first.AwaitTookMore();
  EXPECT_FALSE(second.took_more());
  first.End();
  second.AwaitTookMore();
}

TEST(DecodeAllowanceTest, AHolderThatNeedsMoreStandsBeforeThoseThatHoldNothing) {
  DecodeAllowance allowance(100, 4);
  Taker holder(&allowance, 40, 20);
  holder.AwaitTook();
  Taker other(&allowance, 50);
  other.AwaitTook();
  Taker newcomer(&allowance, 60);
  AwaitWaiting(allowance, 1);
  holder.GoOn();
  AwaitWaiting(allowance, 2);
  other.End();
  holder.AwaitTookMore();
  EXPECT_FALSE(newcomer.took());
  holder.End();
  newcomer.AwaitTook();
}

TEST(DecodeAllowanceTest, TellsWhenBuffersAreTooLargeToBeKept) {
  DecodeAllowance allowance(1000, 2);  // 100 a thread
  DecodeShare share;
  share.SetAllowance(&allowance);
  share.Take(100);
  EXPECT_FALSE(share.GiveBack());
  share.Take(60);
  share.Take(60);
  EXPECT_TRUE(share.GiveBack());
  EXPECT_FALSE(share.GiveBack()) << "nothing is held any more";
}

TEST(DecodeAllowanceTest, NeverHandsOutMoreThanThereIs) {
  DecodeAllowance allowance(100, 8);
  std::atomic<int> held{0};
  std::atomic<int> most{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      DecodeShare share;
      share.SetAllowance(&allowance);
      for (int round = 0; round < 2000; ++round) {
        const int bytes = 10 + (i * 7 + round * 13) % 80;
        share.Take(bytes);
        const int now = held += bytes;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        held -= bytes;
        share.GiveBack();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 100);
  EXPECT_EQ(allowance.waiting(), 0u);
}

TEST(DecodeAllowanceTest, WithoutAnAllowanceNobodyWaits) {
  DecodeShare share;
  share.Take(uint64_t{1} << 60);
  EXPECT_FALSE(share.GiveBack());
}

}  // namespace
}  // namespace bulkhead

#include "server/service/limits/request_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <utility>

#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/os/process/thread.h"

namespace bulkhead {
namespace {

constexpr uint64_t kAll = RequestMemory::kMostBytes;
constexpr uint64_t kHalf = RequestMemory::kMostBytesOfOne;

bool Stays() { return false; }

// Until one waits for its turn, or 30 s have passed.
bool OneWaits(RequestMemory& memory) {
  const absl::Time end = absl::Now() + absl::Seconds(30);
  while (memory.waiting() != 1 && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
  return memory.waiting() == 1;
}

TEST(RequestMemoryTest, GivesTheTurnToTheNextOnceOneIsUnderstood) {
  RequestMemory memory;
  auto first = memory.Enter("a", 1, Stays);
  ASSERT_TRUE(first.ok());
  auto second = std::async(std::launch::async, [&] { return memory.Enter("a", 1, Stays).ok(); });
  EXPECT_TRUE(OneWaits(memory));
  EXPECT_TRUE(first->Understood(1).ok());
  EXPECT_TRUE(second.get());
}

TEST(RequestMemoryTest, GivesTheTurnAwayWithThePlace) {
  RequestMemory memory;
  { ASSERT_TRUE(memory.Enter("a", 1, Stays).ok()); }
  EXPECT_TRUE(memory.Enter("a", kHalf, Stays).ok());
}

TEST(RequestMemoryTest, RefusesWhatExceedsAllOfThem) {
  RequestMemory memory;
  auto first = memory.Enter("a", 1, Stays);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(first->Understood(kHalf).ok());
  auto second = memory.Enter("b", 1, Stays);
  ASSERT_TRUE(second.ok());
  ASSERT_TRUE(second->Understood(kAll - kHalf - 10).ok());
  EXPECT_EQ(GetErrorInfo(memory.Enter("c", 11, Stays).status())->reason, reason::kTooManyCalls);
  auto third = memory.Enter("c", 10, Stays);
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(GetErrorInfo(third->Understood(11))->reason, reason::kTooManyCalls);
  EXPECT_TRUE(memory.Enter("c", 10, Stays).ok());
}

TEST(RequestMemoryTest, OneClientTakesHalfOfItAtMost) {
  RequestMemory memory;
  auto first = memory.Enter("greedy", 1, Stays);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(first->Understood(kHalf - 10).ok());
  const absl::Status refused = memory.Enter("greedy", 11, Stays).status();
  EXPECT_EQ(GetErrorInfo(refused)->reason, reason::kTooManyCalls);
  EXPECT_NE(refused.message().find("others of greedy 48.0MiB"), std::string::npos) << refused;
  EXPECT_TRUE(memory.Enter("greedy", 10, Stays).ok());
  auto other = memory.Enter("other", 1, Stays);
  ASSERT_TRUE(other.ok());
  EXPECT_TRUE(other->Understood(kHalf).ok());
}

TEST(RequestMemoryTest, NobodyWaitsWhileTheServiceDrains) {
  RequestMemory memory;
  const auto first = memory.Enter("a", 1, Stays);
  ASSERT_TRUE(first.ok());
  auto second =
      std::async(std::launch::async, [&] { return memory.Enter("a", 1, Stays).status(); });
  EXPECT_TRUE(OneWaits(memory));
  memory.StartDraining();
  EXPECT_TRUE(absl::IsCancelled(second.get()));
  EXPECT_TRUE(absl::IsCancelled(memory.Enter("a", 1, Stays).status()));
}

TEST(RequestMemoryTest, WhoIsGoneWhenItsTurnComesIsNotProcessed) {
  RequestMemory memory;
  std::atomic<bool> gone = false;
  auto first = memory.Enter("a", 1, Stays);
  ASSERT_TRUE(first.ok());
  auto second = std::async(std::launch::async, [&] {
    return memory.Enter("b", kHalf, [&] { return gone.load(); }).status();
  });
  EXPECT_TRUE(OneWaits(memory));
  gone = true;
  EXPECT_TRUE(first->Understood(1).ok());
  EXPECT_TRUE(absl::IsCancelled(second.get()));
  EXPECT_TRUE(memory.Enter("b", kHalf, Stays).ok()) << "it holds nothing and the turn is free";
}

TEST(RequestMemoryTest, AClientThatTookLongWaitsAndOthersDoNot) {
  RequestMemory memory;
  auto first = memory.Enter("slow", 1, Stays);
  ASSERT_TRUE(first.ok());
  const int64_t begin_ns = ThreadCpuNanos();
  while (absl::Nanoseconds(ThreadCpuNanos() - begin_ns) <
         RequestMemory::kBurstOfOne + absl::Milliseconds(200)) {
  }
  const absl::Time end = absl::Now();
  ASSERT_TRUE(first->Understood(1).ok());
  auto second = std::async(std::launch::async, [&] { return memory.Enter("slow", 1, Stays).ok(); });
  EXPECT_TRUE(OneWaits(memory));
  EXPECT_TRUE(memory.Enter("other", 1, Stays).ok());
  EXPECT_TRUE(second.get());
  EXPECT_GE(absl::Now() - end, absl::Milliseconds(200) / RequestMemory::kShareOfOne);
}

TEST(RequestMemoryTest, CountsAMovedPlaceOnce) {
  RequestMemory memory;
  {
    auto place = memory.Enter("a", kHalf, Stays);
    ASSERT_TRUE(place.ok());
    RequestMemory::Place moved;
    moved = *std::move(place);
    EXPECT_TRUE(moved.Understood(kHalf).ok());
  }
  EXPECT_TRUE(memory.Enter("a", kHalf, Stays).ok());
}

}  // namespace
}  // namespace bulkhead

#include "server/service/limits/request_memory.h"

#include <gtest/gtest.h>

#include <future>
#include <utility>

#include "absl/time/clock.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

constexpr uint64_t kAll = RequestMemory::kMostBytes;

// Until one waits for its turn, or 30 s have passed.
bool OneWaits(RequestMemory& memory) {
  const absl::Time end = absl::Now() + absl::Seconds(30);
  while (memory.waiting() != 1 && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
  return memory.waiting() == 1;
}

TEST(RequestMemoryTest, GivesTheTurnToTheNextOnceOneIsUnderstood) {
  RequestMemory memory;
  auto first = memory.Enter(1);
  ASSERT_TRUE(first.ok());
  auto second = std::async(std::launch::async, [&] { return memory.Enter(1).ok(); });
  EXPECT_TRUE(OneWaits(memory));
  EXPECT_TRUE(first->Understood(1).ok());
  EXPECT_TRUE(second.get());
}

TEST(RequestMemoryTest, GivesTheTurnAwayWithThePlace) {
  RequestMemory memory;
  { ASSERT_TRUE(memory.Enter(1).ok()); }
  EXPECT_TRUE(memory.Enter(kAll).ok());
}

TEST(RequestMemoryTest, RefusesWhatExceedsAllOfThem) {
  RequestMemory memory;
  auto first = memory.Enter(1);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(first->Understood(kAll - 10).ok());
  EXPECT_EQ(GetErrorInfo(memory.Enter(11).status())->reason, reason::kTooManyCalls);
  auto second = memory.Enter(10);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(GetErrorInfo(second->Understood(11))->reason, reason::kTooManyCalls);
  EXPECT_TRUE(memory.Enter(10).ok());
}

TEST(RequestMemoryTest, NobodyWaitsWhileTheServiceDrains) {
  RequestMemory memory;
  const auto first = memory.Enter(1);
  ASSERT_TRUE(first.ok());
  auto second = std::async(std::launch::async, [&] { return memory.Enter(1).status(); });
  EXPECT_TRUE(OneWaits(memory));
  memory.StartDraining();
  EXPECT_TRUE(absl::IsCancelled(second.get()));
  EXPECT_TRUE(absl::IsCancelled(memory.Enter(1).status()));
}

TEST(RequestMemoryTest, CountsAMovedPlaceOnce) {
  RequestMemory memory;
  {
    auto place = memory.Enter(kAll);
    ASSERT_TRUE(place.ok());
    RequestMemory::Place moved;
    moved = *std::move(place);
    EXPECT_TRUE(moved.Understood(kAll).ok());
  }
  EXPECT_TRUE(memory.Enter(kAll).ok());
}

}  // namespace
}  // namespace bulkhead

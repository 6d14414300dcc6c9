#include "server/base/rate_limit.h"

#include <gtest/gtest.h>

namespace bulkhead {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(RateLimitTest, LetsABurstPassAndThenTheRate) {
  RateLimit limit(2, 3);
  int passed = 0;
  for (int i = 0; i < 10; ++i) passed += limit.Take(5 * kSecond) ? 1 : 0;
  EXPECT_EQ(passed, 3);
  EXPECT_FALSE(limit.Take(5 * kSecond + kSecond / 4));
  EXPECT_TRUE(limit.Take(5 * kSecond + kSecond / 2));
  EXPECT_FALSE(limit.Take(5 * kSecond + kSecond / 2));
}

TEST(RateLimitTest, SavesNoMoreThanTheBurst) {
  RateLimit limit(100, 2);
  EXPECT_TRUE(limit.Take(kSecond));
  EXPECT_TRUE(limit.Take(1000 * kSecond));
  EXPECT_TRUE(limit.Take(1000 * kSecond));
  EXPECT_FALSE(limit.Take(1000 * kSecond));
}

TEST(RateLimitTest, TellsTheRefusedOnceWhenThereIsRoomForIt) {
  RateLimit limit(1, 1);
  EXPECT_EQ(limit.TakeRefused(kSecond), 0U) << "nothing was refused";
  EXPECT_TRUE(limit.Take(kSecond));
  EXPECT_FALSE(limit.Take(kSecond));
  limit.CountRefused();
  EXPECT_EQ(limit.TakeRefused(kSecond), 0U) << "there is no room to say so";
  EXPECT_EQ(limit.TakeRefused(2 * kSecond), 2U);
  EXPECT_FALSE(limit.Take(2 * kSecond)) << "saying so takes a place";
  EXPECT_EQ(limit.TakeRefused(3 * kSecond), 0U) << "a flood of items is no flood of tellings";
  EXPECT_EQ(limit.TakeRefused(2 * kSecond + RateLimit::kTellingNs), 1U);
}

TEST(RateLimitTest, TimeThatGoesBackGivesNothing) {
  RateLimit limit(1, 1);
  EXPECT_TRUE(limit.Take(10 * kSecond));
  EXPECT_FALSE(limit.Take(5 * kSecond));
  EXPECT_FALSE(limit.Take(5 * kSecond + kSecond / 2));
  EXPECT_FALSE(limit.Take(9 * kSecond)) << "counted once, by the thread with the later time";
  EXPECT_TRUE(limit.Take(11 * kSecond));
}

}  // namespace
}  // namespace bulkhead

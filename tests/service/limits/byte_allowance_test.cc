#include "server/service/limits/byte_allowance.h"

#include <gtest/gtest.h>

namespace bulkhead::byte_allowance_test {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kNow = 1000 * kSecond;
constexpr uint64_t kUnallowed = 96 << 10;
constexpr uint64_t kBurst = 32 << 20;
constexpr uint64_t kPerSecond = 4 << 20;

ByteAllowance Allowed() {
  ByteAllowance allowance;
  allowance.Allow();
  return allowance;
}

TEST(ByteAllowanceTest, WithoutAnAllowedCallTimeGivesNothing) {
  ByteAllowance allowance;
  EXPECT_FALSE(allowance.allowed());
  EXPECT_TRUE(allowance.Count(kUnallowed, kNow));
  EXPECT_TRUE(allowance.Count(kUnallowed, kNow + 1)) << "nothing has come since";
  EXPECT_FALSE(allowance.Count(kUnallowed + 1, kNow + 3600 * kSecond));
  allowance.Allow();
  EXPECT_TRUE(allowance.allowed());
  EXPECT_TRUE(allowance.Count(kUnallowed + 2, kNow + 3600 * kSecond));
}

TEST(ByteAllowanceTest, AnAllowedCallAllowsABurst) {
  ByteAllowance allowance = Allowed();
  EXPECT_TRUE(allowance.Count(kBurst, kNow));
  EXPECT_FALSE(allowance.Count(kBurst + 1, kNow));
}

TEST(ByteAllowanceTest, AndInTheLongRunSoMuchASecond) {
  ByteAllowance allowance = Allowed();
  uint64_t bytes = kBurst;
  ASSERT_TRUE(allowance.Count(bytes, kNow));
  for (int second = 1; second <= 1000; ++second) {
    bytes += kPerSecond;
    ASSERT_TRUE(allowance.Count(bytes, kNow + second * kSecond)) << second;
  }
  EXPECT_FALSE(allowance.Count(bytes + kPerSecond + 1, kNow + 1001 * kSecond));
}

TEST(ByteAllowanceTest, WhatIsForgivenDoesNotCountWhenItIsSeen) {
  ByteAllowance allowance = Allowed();
  ASSERT_TRUE(allowance.Count(0, kNow));
  allowance.Forgive(1000);
  EXPECT_TRUE(allowance.Count(kBurst + 1000, kNow));
  allowance.Forgive(1000);  // seen before
  EXPECT_TRUE(allowance.Count(kBurst + 2000, kNow));
  EXPECT_FALSE(allowance.Count(kBurst + 2001, kNow));
}

TEST(ByteAllowanceTest, TimeWithoutBytesIsNotSaved) {
  ByteAllowance allowance = Allowed();
  EXPECT_TRUE(allowance.Count(0, kNow));
  EXPECT_FALSE(allowance.Count(kBurst + 1, kNow + 3600 * kSecond));
}

TEST(ByteAllowanceTest, CountsAndTimesThatComeOutOfOrderCountOnce) {
  ByteAllowance allowance = Allowed();
  EXPECT_TRUE(allowance.Count(kBurst, kNow + kSecond));
  EXPECT_TRUE(allowance.Count(0, kNow)) << "the socket is gone";
  EXPECT_TRUE(allowance.Count(kBurst, kNow + kSecond));
}

}  // namespace
}  // namespace bulkhead::byte_allowance_test

#include "server/service/limits/byte_allowance.h"

#include <gtest/gtest.h>

namespace bulkhead {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kNow = 1000 * kSecond;
constexpr uint64_t kBurst = 256 << 10;
constexpr uint64_t kPerSecond = 16 << 10;
constexpr uint64_t kBurstOfAllowed = 32 << 20;

TEST(ByteAllowanceTest, AConnectionSendsABurstAndNoByteMore) {
  ByteAllowance allowance(kNow);
  EXPECT_TRUE(allowance.Count(kBurst, kNow));
  EXPECT_TRUE(allowance.Count(kBurst, kNow)) << "nothing has come since";
  EXPECT_FALSE(allowance.Count(kBurst + 1, kNow));
}

TEST(ByteAllowanceTest, InTheLongRunItSendsSoMuchASecond) {
  ByteAllowance allowance(kNow);
  uint64_t bytes = kBurst;
  ASSERT_TRUE(allowance.Count(bytes, kNow));
  for (int second = 1; second <= 1000; ++second) {
    bytes += kPerSecond;
    ASSERT_TRUE(allowance.Count(bytes, kNow + second * kSecond)) << second;
  }
  EXPECT_FALSE(allowance.Count(bytes + kPerSecond + 1, kNow + 1001 * kSecond));
}

TEST(ByteAllowanceTest, TimeWithoutBytesIsNotSavedBeyondABurst) {
  ByteAllowance allowance(kNow);
  EXPECT_TRUE(allowance.Count(0, kNow + 3600 * kSecond));
  EXPECT_FALSE(allowance.Count(kBurst + 1, kNow + 3600 * kSecond));
}

TEST(ByteAllowanceTest, AnAllowedCallAllowsMore) {
  ByteAllowance allowance(kNow);
  EXPECT_FALSE(allowance.allowed());
  allowance.Allow();
  EXPECT_TRUE(allowance.allowed());
  EXPECT_TRUE(allowance.Count(kBurstOfAllowed, kNow));
  EXPECT_FALSE(allowance.Count(kBurstOfAllowed + 1, kNow));
  EXPECT_TRUE(allowance.Count(kBurstOfAllowed + (4 << 20), kNow + kSecond));
}

TEST(ByteAllowanceTest, CountsAndTimesThatComeOutOfOrderCountOnce) {
  ByteAllowance allowance(kNow);
  EXPECT_TRUE(allowance.Count(kBurst, kNow + kSecond));
  EXPECT_TRUE(allowance.Count(0, kNow)) << "the socket is gone";
  EXPECT_TRUE(allowance.Count(kBurst, kNow + kSecond));
}

}  // namespace
}  // namespace bulkhead

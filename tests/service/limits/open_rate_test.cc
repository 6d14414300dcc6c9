#include "server/service/limits/open_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/service/limits/peers.h"

namespace bulkhead {
namespace {

using testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;

// Openings that pass of `tries`, each on its own connection if `connection` is empty.
int Passed(OpenRate& rate, const std::string& connection, const std::string& client, int tries,
           int64_t now_ns) {
  int passed = 0;
  for (int i = 0; i < tries; ++i) {
    const std::string own = absl::StrCat(client, ":", i);
    passed += rate.Take(connection.empty() ? own : connection, client, now_ns).ok() ? 1 : 0;
  }
  return passed;
}

TEST(OpenRateTest, ABurstPassesOnAConnectionThenSomeASecond) {
  OpenRate rate(16);
  EXPECT_EQ(Passed(rate, "fd:7", "process 1", 200, kSecond), 64);
  EXPECT_EQ(Passed(rate, "fd:7", "process 1", 200, 2 * kSecond), 16);
  EXPECT_EQ(Passed(rate, "fd:7", "process 1", 200, 60 * kSecond), 64);
}

TEST(OpenRateTest, ManyConnectionsOfAClientShareItsBurst) {
  OpenRate rate(16);
  EXPECT_EQ(Passed(rate, "", "trainer", 1000, kSecond), 256);
  EXPECT_EQ(Passed(rate, "", "trainer", 1000, 2 * kSecond), 16);
  EXPECT_EQ(Passed(rate, "", "other", 1000, 2 * kSecond), 256);
}

TEST(OpenRateTest, ARefusalSaysWhoAndWhatToDo) {
  OpenRate rate(0.5);
  Passed(rate, "", "trainer", 256, kSecond);
  const absl::Status refused = rate.Take("fd:9", "trainer", kSecond);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorInfo(refused)->reason, reason::kOpenedTooOften);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("trainer opens streams and describes specs too often; this service takes "
                        "0.5 a second (bulkheadd's --open-rate)"));
}

TEST(OpenRateTest, ZeroIsNoLimit) {
  OpenRate rate(0);
  EXPECT_EQ(Passed(rate, "fd:7", "process 1", 1000, kSecond), 1000);
}

TEST(OpenRateTest, WhatItRemembersIsBounded) {
  OpenRate rate(1);
  const int most = static_cast<int>(OpenRate::kMostKnown);
  for (int i = 0; i < most; ++i) {
    ASSERT_TRUE(rate.Take(absl::StrCat("c", i), "client", i * kSecond).ok());
  }
  // Those that may open a burst again make room.
  EXPECT_TRUE(rate.Take("new", "client", most * kSecond).ok());
  for (int i = 0; i < most; ++i) {
    (void)rate.Take(absl::StrCat("d", i), absl::StrCat("client ", i), most * kSecond);
  }
  // These do not, until they may.
  EXPECT_FALSE(rate.Take("e", "client e", most * kSecond).ok());
  EXPECT_TRUE(rate.Take("e", "client e", (most + 1) * kSecond).ok());
}

TEST(PeersTest, OfAUnixSocketTheClientIsItsProcess) {
  Peers peers;
  peers.Connected(12, 4711);
  peers.Connected(13, 0);
  EXPECT_EQ(peers.ClientOf("fd:12"), "process 4711");
  EXPECT_EQ(peers.ClientOf("fd:13"), "a process of another container");
  const std::string before = peers.ConnectionOf("fd:12");
  EXPECT_NE(peers.ConnectionOf("fd:13"), before);
  peers.Connected(12, 5);
  EXPECT_EQ(peers.ClientOf("fd:12"), "process 5");
  EXPECT_NE(peers.ConnectionOf("fd:12"), before) << "a new connection is not an old one";
}

TEST(PeersTest, OverTcpTheClientIsItsHost) {
  const Peers peers;
  EXPECT_EQ(peers.ClientOf("ipv4:10.0.0.7:4321"), "ipv4:10.0.0.7");
  EXPECT_EQ(peers.ConnectionOf("ipv4:10.0.0.7:4321"), "ipv4:10.0.0.7:4321");
  EXPECT_EQ(peers.ClientOf("ipv6:%5Bfe80::1%5D:4321"), "ipv6:%5Bfe80::1%5D");
}

}  // namespace
}  // namespace bulkhead

#include "server/service/limits/client_pace.h"

#include <gtest/gtest.h>

#include <string>

namespace bulkhead::client_pace_test {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr absl::Duration kInterval = absl::Milliseconds(50);
constexpr absl::Duration kBurst = absl::Seconds(5);

TEST(ClientPaceTest, AnswersABurstAtOnceAndThenSoManyASecond) {
  ClientPace pace(kBurst);
  for (int i = 0; i < kBurst / kInterval; ++i) {
    ASSERT_EQ(pace.Take("a", kInterval, kSecond), absl::ZeroDuration()) << i;
  }
  for (int i = 1; i <= 20; ++i) {
    EXPECT_EQ(pace.Take("a", kInterval, kSecond), i * kInterval);
  }
  EXPECT_EQ(pace.Take("b", kInterval, kSecond), absl::ZeroDuration()) << "another client";
  EXPECT_GT(pace.Take("a", kInterval, 2 * kSecond), absl::ZeroDuration());
  EXPECT_EQ(pace.Take("a", kInterval, 3 * kSecond), absl::ZeroDuration())
      << "what it waited for has passed";
}

TEST(ClientPaceTest, WhatTakesLongWaitsAfterwards) {
  ClientPace pace(kBurst);
  EXPECT_EQ(pace.Wait("a", kSecond), absl::ZeroDuration());
  pace.Take("a", absl::Seconds(7), kSecond);
  EXPECT_EQ(pace.Wait("a", kSecond), absl::Seconds(2)) << "what exceeds the burst";
  EXPECT_EQ(pace.Wait("a", 2 * kSecond), absl::Seconds(1));
  EXPECT_EQ(pace.Wait("b", kSecond), absl::ZeroDuration()) << "another client";
}

TEST(ClientPaceTest, RemembersSoManyClientsAndThoseThatAskAgain) {
  ClientPace pace(kBurst);
  for (size_t i = 0; i < ClientPace::kMostKnown; ++i)
    pace.Take(std::to_string(i), kInterval, kSecond);
  EXPECT_EQ(pace.Take("one more", kInterval, kSecond), absl::Seconds(1));
  EXPECT_EQ(pace.Take("0", kInterval, kSecond), absl::ZeroDuration()) << "it is known";
  EXPECT_EQ(pace.Take("one more", kInterval, 10 * kSecond), absl::ZeroDuration())
      << "the others are forgotten";
}

}  // namespace
}  // namespace bulkhead::client_pace_test

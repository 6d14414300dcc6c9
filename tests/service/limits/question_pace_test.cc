#include "server/service/limits/question_pace.h"

#include <gtest/gtest.h>

#include <string>

namespace bulkhead::question_pace_test {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(QuestionPaceTest, AnswersABurstAtOnceAndThenSoManyASecond) {
  QuestionPace pace;
  for (int i = 0; i < QuestionPace::kBurst; ++i) {
    ASSERT_EQ(pace.Wait("a", kSecond), absl::ZeroDuration()) << i;
  }
  for (int i = 1; i <= QuestionPace::kPerSecond; ++i) {
    EXPECT_EQ(pace.Wait("a", kSecond), i * absl::Seconds(1) / QuestionPace::kPerSecond);
  }
  EXPECT_EQ(pace.Wait("b", kSecond), absl::ZeroDuration()) << "another client";
  EXPECT_GT(pace.Wait("a", 2 * kSecond), absl::ZeroDuration());
  EXPECT_EQ(pace.Wait("a", 3 * kSecond), absl::ZeroDuration()) << "what it waited for has passed";
}

TEST(QuestionPaceTest, RemembersSoManyClientsAndThoseThatAskAgain) {
  QuestionPace pace;
  for (size_t i = 0; i < QuestionPace::kMostKnown; ++i) pace.Wait(std::to_string(i), kSecond);
  EXPECT_EQ(pace.Wait("one more", kSecond), absl::Seconds(1));
  EXPECT_EQ(pace.Wait("0", kSecond), absl::ZeroDuration()) << "it is known";
  EXPECT_EQ(pace.Wait("one more", 10 * kSecond), absl::ZeroDuration())
      << "the others are forgotten";
}

}  // namespace
}  // namespace bulkhead::question_pace_test

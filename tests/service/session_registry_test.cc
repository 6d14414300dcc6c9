#include "server/service/session_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bulkhead {
namespace {

using testing::HasSubstr;

std::string ReasonOf(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  return info.has_value() ? info->reason : "";
}

TEST(SessionRegistryTest, OneNameLeavesPlacesForOthers) {
  SessionRegistry sessions;
  for (uint32_t i = 0; i < SessionRegistry::kMaxSessionsOfOne; ++i) {
    ASSERT_TRUE(sessions.TryAdd("greedy").ok()) << i;
  }
  const absl::Status refused = sessions.TryAdd("greedy");
  EXPECT_EQ(ReasonOf(refused), reason::kTooManyCalls);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("for greedy this service already serves"));
  EXPECT_TRUE(sessions.TryAdd("other").ok());
  sessions.Remove("greedy");
  EXPECT_TRUE(sessions.TryAdd("greedy").ok());
}

// Takes all places, by two callers.
void Fill(SessionRegistry& sessions) {
  for (uint32_t i = 0; i < SessionRegistry::kMaxSessionsOfOne; ++i) {
    ASSERT_TRUE(sessions.TryAdd("process 1").ok()) << i;
    ASSERT_TRUE(sessions.TryAdd("process 2").ok()) << i;
  }
}

TEST(SessionRegistryTest, AllTogetherHaveSoMany) {
  SessionRegistry sessions;
  Fill(sessions);
  EXPECT_EQ(ReasonOf(sessions.TryAdd("process 3")), reason::kTooManyCalls);
  sessions.Remove("process 1");
  EXPECT_TRUE(sessions.TryAdd("process 3").ok());
}

TEST(SessionRegistryTest, QuestionsHavePlacesOfTheirOwn) {
  SessionRegistry sessions;
  Fill(sessions);
  sessions.StartDraining();
  for (uint32_t i = 0; i < SessionRegistry::kMaxQuestionsOfOne; ++i) {
    ASSERT_TRUE(sessions.TryAddQuestion("greedy").ok()) << i;
  }
  EXPECT_EQ(ReasonOf(sessions.TryAddQuestion("greedy")), reason::kTooManyCalls);
  for (uint32_t i = 0; i < SessionRegistry::kMaxQuestions / 2; ++i) {
    ASSERT_TRUE(sessions.TryAddQuestion("many").ok()) << i;
  }
  EXPECT_EQ(ReasonOf(sessions.TryAddQuestion("other")), reason::kTooManyCalls);
  sessions.RemoveQuestion("greedy");
  EXPECT_TRUE(sessions.TryAddQuestion("other").ok());
}

TEST(SessionRegistryTest, AServiceThatDrainsTakesNoSessions) {
  SessionRegistry sessions;
  sessions.StartDraining();
  EXPECT_EQ(ReasonOf(sessions.TryAdd("a")), reason::kShuttingDown);
}

}  // namespace
}  // namespace bulkhead

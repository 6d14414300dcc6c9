#include "server/service/session_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

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
  const absl::Status refused = sessions.TryAdd("greedy").status();
  EXPECT_EQ(ReasonOf(refused), reason::kTooManyCalls);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("for greedy this service already serves"));
  EXPECT_TRUE(sessions.TryAdd("other").ok());
  sessions.Remove(1);
  EXPECT_TRUE(sessions.TryAdd("greedy").ok());
}

// Each time another caller.
absl::StatusOr<uint64_t> TryAnyone(SessionRegistry& sessions) {
  static int process = 0;
  return sessions.TryAdd(absl::StrCat("process ", ++process));
}

void Fill(SessionRegistry& sessions) {
  while (TryAnyone(sessions).ok()) continue;
}

TEST(SessionRegistryTest, AllTogetherHaveSoMany) {
  SessionRegistry sessions;
  Fill(sessions);
  EXPECT_EQ(ReasonOf(TryAnyone(sessions).status()), reason::kTooManyCalls);
  sessions.Remove(1);
  EXPECT_TRUE(TryAnyone(sessions).ok());
}

// A session whose client has left a batch waiting for so long.
struct Unread {
  explicit Unread(absl::Duration time, const std::string& caller = "unread")
      : since(std::make_shared<std::atomic<int64_t>>(MonotonicNanos() -
                                                     absl::ToInt64Nanoseconds(time))),
        caller(caller) {}
  void AddTo(SessionRegistry& sessions) {
    id = sessions.TryAdd(caller).value();
    sessions.Offer(id, since, [this] { ++evictions; });
  }

  const std::shared_ptr<std::atomic<int64_t>> since;
  const std::string caller;
  uint64_t id = 0;
  int evictions = 0;
};

TEST(SessionRegistryTest, TheLongestUnreadStreamLosesItsPlaceToANewcomer) {
  SessionRegistry sessions(absl::Seconds(300));
  Unread long_ago(absl::Seconds(400)), longest_ago(absl::Seconds(500)), lately(absl::Seconds(200));
  Unread taken_just_now(absl::Seconds(600));
  for (Unread* unread : {&long_ago, &longest_ago, &lately, &taken_just_now}) {
    unread->AddTo(sessions);
  }
  *taken_just_now.since = 0;
  for (uint32_t i = 4; i < SessionRegistry::kMaxSessions; ++i)
    ASSERT_TRUE(TryAnyone(sessions).ok());
  EXPECT_EQ(long_ago.evictions + longest_ago.evictions, 0) << "there was room";
  EXPECT_TRUE(TryAnyone(sessions).ok());
  EXPECT_EQ(longest_ago.evictions, 1);
  EXPECT_EQ(long_ago.evictions, 0);
  EXPECT_TRUE(TryAnyone(sessions).ok());
  EXPECT_EQ(ReasonOf(TryAnyone(sessions).status()), reason::kTooManyCalls);
  EXPECT_EQ(long_ago.evictions, 1);
  EXPECT_EQ(lately.evictions + taken_just_now.evictions, 0);
  // It gave its place already.
  sessions.Remove(longest_ago.id);
  EXPECT_FALSE(TryAnyone(sessions).ok());
  sessions.Remove(lately.id);
  EXPECT_TRUE(TryAnyone(sessions).ok());
}

TEST(SessionRegistryTest, OneNameThatHasAllItMayHaveGivesUpItsOwnPlaces) {
  SessionRegistry sessions(absl::Seconds(300));
  Unread its_own(absl::Seconds(400), "greedy"), anothers(absl::Seconds(500), "other");
  its_own.AddTo(sessions);
  anothers.AddTo(sessions);
  for (uint32_t i = 1; i < SessionRegistry::kMaxSessionsOfOne; ++i) {
    ASSERT_TRUE(sessions.TryAdd("greedy").ok());
  }
  EXPECT_TRUE(sessions.TryAdd("greedy").ok());
  EXPECT_EQ(its_own.evictions, 1);
  EXPECT_EQ(ReasonOf(sessions.TryAdd("greedy").status()), reason::kTooManyCalls);
  EXPECT_EQ(anothers.evictions, 0);
  Fill(sessions);
  EXPECT_EQ(anothers.evictions, 1) << "where all places are taken, any helps";
}

TEST(SessionRegistryTest, FewSessionsEndWithoutAPlace) {
  SessionRegistry sessions(absl::Seconds(300));
  std::deque<Unread> unread;
  while ((unread.emplace_back(absl::Seconds(400)).id = TryAnyone(sessions).value_or(0)) != 0) {
    sessions.Offer(unread.back().id, unread.back().since, [] {});
  }
  EXPECT_EQ(unread.size(), 2 * SessionRegistry::kMaxSessions + 1);
  EXPECT_FALSE(sessions.WaitUntilEmpty(absl::ZeroDuration()));
  for (uint64_t id = 1; id <= 2 * SessionRegistry::kMaxSessions; ++id) sessions.Remove(id);
  EXPECT_TRUE(sessions.WaitUntilEmpty(absl::ZeroDuration()));
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
  EXPECT_EQ(ReasonOf(sessions.TryAdd("a").status()), reason::kShuttingDown);
}

}  // namespace
}  // namespace bulkhead

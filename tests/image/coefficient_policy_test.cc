#include "server/image/kept/coefficient_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace bulkhead {
namespace {

constexpr uint64_t kMcus = 1'000;

// What looking and decoding take, in seconds for a file, and the share of files whose coefficients
// are kept.
struct Costs {
  double kept = 0.0002;
  double anew = 0.0005;
  double look = 0;
  double kept_share = 1;
};

struct Went {
  int looks = 0;
  double seconds = 0;
};

Went Decode(CoefficientPolicy& policy, int files, const Costs& costs) {
  Went went;
  double until_kept = 0;
  for (int i = 0; i < files; ++i) {
    until_kept += costs.kept_share;
    const bool is_kept = until_kept >= 1;
    until_kept -= is_kept ? 1 : 0;
    if (!policy.ShouldLook()) {
      policy.NoteAnew(costs.anew, kMcus);
      went.seconds += costs.anew;
      continue;
    }
    ++went.looks;
    went.seconds += costs.look + (is_kept ? costs.kept : costs.anew);
    if (is_kept) {
      policy.NoteKept(costs.look + costs.kept, kMcus);
    } else {
      policy.NoteVain(costs.look, kMcus);
      policy.NoteAnew(costs.anew, kMcus);
    }
  }
  return went;
}

TEST(CoefficientPolicyTest, TheFasterWayIsTakenForAlmostAllFiles) {
  CoefficientPolicy fast;
  EXPECT_GE(Decode(fast, 10'000, {}).looks, 9'900);
  EXPECT_TRUE(fast.looks());
  CoefficientPolicy slow;
  EXPECT_LE(Decode(slow, 10'000, {.kept = 0.005}).looks, 20);
  EXPECT_GE(Decode(slow, 100'000, {.kept = 0.005}).looks, 5) << "it may become faster";
  EXPECT_FALSE(slow.looks());
}

TEST(CoefficientPolicyTest, LearningCostsNoMoreThanAHundredth) {
  for (const double kept : {0.0002, 0.0006, 0.002, 0.01, 0.1}) {
    CoefficientPolicy policy;
    const double first = Decode(policy, 16, {.kept = kept}).seconds;
    EXPECT_LE(first, 16 * 0.0005 + 9 * kept);
    const Went went = Decode(policy, 200'000, {.kept = kept});
    EXPECT_LE(went.seconds, 1.01 * 200'000 * std::min(kept, 0.0005)) << kept;
  }
}

TEST(CoefficientPolicyTest, LooksAreWeighedAgainstWhatTheyFind) {
  // A twentieth is kept: looking gains 0.015 ms a file.
  CoefficientPolicy cheap;
  EXPECT_GE(Decode(cheap, 100'000, {.look = 0.000'002, .kept_share = 0.05}).looks, 50'000);
  CoefficientPolicy dear;
  const Went went = Decode(dear, 100'000, {.look = 0.000'05, .kept_share = 0.05});
  EXPECT_LE(went.seconds, 1.02 * 100'000 * 0.0005);
  CoefficientPolicy none;
  EXPECT_LE(Decode(none, 100'000, {.look = 0.0001, .kept_share = 0}).seconds,
            1.01 * 100'000 * 0.0005);
  EXPECT_GE(Decode(none, 10'000, {.look = 0.0001}).looks, 9'000) << "all are kept since";
}

TEST(CoefficientPolicyTest, AChangeIsNoticed) {
  CoefficientPolicy policy;
  Decode(policy, 10'000, {});
  EXPECT_LE(Decode(policy, 1'000, {.kept = 0.005}).looks, 30) << "a disk became slow";
  EXPECT_GE(Decode(policy, 100'000, {}).looks, 90'000) << "and fast again";
  Decode(policy, 1'000, {.kept = 0.005});
  while (!policy.ShouldLook()) policy.NoteAnew(0.0005, kMcus);
  policy.NoteKept(0.0002, kMcus);
  EXPECT_GE(Decode(policy, 1'000, {}).looks, 500) << "soon after the first that was";
}

// Seconds for `files` files, of which coefficients are made when they may be; the share of those.
std::pair<double, double> Make(int files, double making_seconds, double anew_seconds) {
  CoefficientPolicy policy;
  double now = 1000;
  int made = 0;
  for (int i = 0; i < files; ++i) {
    if (policy.MayMake(now)) {
      ++made;
      now += making_seconds;
      policy.NoteMaking(making_seconds, kMcus);
    } else {
      now += anew_seconds;
      policy.NoteAnew(anew_seconds, kMcus);
    }
  }
  return {now - 1000, static_cast<double>(made) / files};
}

TEST(CoefficientPolicyTest, AFileThatAnotherProgramHeldUpIsAnAccident) {
  CoefficientPolicy policy;
  Decode(policy, 10'000, {});
  policy.NoteKept(0.1, kMcus);
  EXPECT_GE(Decode(policy, 100, {}).looks, 98);
}

TEST(CoefficientPolicyTest, NoneAreMadeThatWouldBeReadMoreSlowly) {
  CoefficientPolicy policy;
  Decode(policy, 100, {});
  EXPECT_TRUE(policy.MayMake(1000));
  Decode(policy, 100, {.kept = 0.01});
  EXPECT_FALSE(policy.MayMake(1001));
}

// Epochs until the coefficients of 3,000 files are kept; how many of them took longer than 1.1
// times an epoch without.
std::pair<int, int> EpochsUntilAllAreMade() {
  constexpr double kAnew = 0.0005;
  constexpr double kMaking = 0.0012;
  CoefficientPolicy policy;
  std::vector<bool> kept(3'000);
  double now = 0;
  int slow = 0;
  for (int epoch = 1; epoch <= 100; ++epoch) {
    if (std::find(kept.begin(), kept.end(), false) == kept.end()) return {epoch, slow};
    const double begin = now;
    for (size_t i = 0; i < kept.size(); ++i) {
      const bool may_make = policy.MayMake(now);
      if (policy.ShouldLook() && kept[i]) {
        policy.NoteKept(0.0002, kMcus);
        now += 0.0002;
      } else if (may_make && !kept[i]) {
        policy.NoteMaking(kMaking, kMcus);
        now += kMaking;
        kept[i] = true;
      } else {
        policy.NoteAnew(kAnew, kMcus);
        now += kAnew;
      }
    }
    slow += now - begin > 1.1 * kAnew * static_cast<double>(kept.size()) ? 1 : 0;
  }
  return {100, slow};
}

TEST(CoefficientPolicyTest, WhatTheySaveIsSpentOnMakingMore) {
  const auto [epochs, slow] = EpochsUntilAllAreMade();
  EXPECT_LE(epochs, 12);
  EXPECT_EQ(slow, 0);
}

TEST(CoefficientPolicyTest, TimeIsNotSavedUp) {
  CoefficientPolicy policy;
  Decode(policy, 100, {});
  policy.MayMake(1000);
  int made = 0;
  for (; policy.MayMake(5000) && made < 1'000; ++made) policy.NoteMaking(0.0105, kMcus);
  EXPECT_LE(made, 12) << "an hour in which none could be made gives no right to a long pause";
}

TEST(CoefficientPolicyTest, MakingTakesLessThanATenthOfTheTime) {
  const auto [seconds, share] = Make(10'000, 0.0015, 0.0005);
  EXPECT_NEAR(seconds, 10'000 * 0.0005 / 0.93, 0.1);
  EXPECT_NEAR(share, 0.038, 0.01);
  EXPECT_NEAR(Make(10'000, 0.1, 0.0005).first, 10'000 * 0.0005 / 0.93, 0.2) << "a slow disk";
  EXPECT_GT(Make(10'000, 0.00052, 0.0005).second, 0.99) << "it costs nothing";
}

}  // namespace
}  // namespace bulkhead

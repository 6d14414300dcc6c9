#include "server/image/codecs/coefficient_policy.h"

#include <gtest/gtest.h>

#include <utility>

namespace bulkhead {
namespace {

constexpr uint64_t kMcus = 1'000;

// How many of `files` are decoded by their coefficients, if either way takes so long.
int CountReads(CoefficientPolicy& policy, int files, double kept_seconds, double anew_seconds) {
  int reads = 0;
  for (int i = 0; i < files; ++i) {
    if (policy.ShouldRead()) {
      policy.NoteKept(kept_seconds, kMcus);
      ++reads;
    } else {
      policy.NoteAnew(anew_seconds, kMcus);
    }
  }
  return reads;
}

TEST(CoefficientPolicyTest, TheFasterWayIsTakenForAlmostAllFiles) {
  CoefficientPolicy fast;
  EXPECT_GE(CountReads(fast, 10'000, 0.0002, 0.0005), 9'975);
  CoefficientPolicy slow;
  EXPECT_LE(CountReads(slow, 10'000, 0.0050, 0.0005), 100);
  EXPECT_GE(CountReads(slow, 10'000, 0.0050, 0.0005), 5) << "it may become faster";
}

TEST(CoefficientPolicyTest, AChangeIsNoticed) {
  CoefficientPolicy policy;
  CountReads(policy, 10'000, 0.0002, 0.0005);
  EXPECT_LE(CountReads(policy, 1'000, 0.0050, 0.0005), 30) << "a disk became slow";
  EXPECT_GE(CountReads(policy, 100'000, 0.0002, 0.0005), 90'000) << "and fast again";
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
  CountReads(policy, 10'000, 0.0002, 0.0005);
  policy.NoteKept(0.1, kMcus);
  EXPECT_GE(CountReads(policy, 100, 0.0002, 0.0005), 98);
}

TEST(CoefficientPolicyTest, MakingTakesATenthOfTheTime) {
  const auto [seconds, share] = Make(10'000, 0.0015, 0.0005);
  EXPECT_NEAR(seconds, 10'000 * 0.0005 / 0.9, 0.1);
  EXPECT_NEAR(share, 0.055, 0.01);
  EXPECT_NEAR(Make(10'000, 0.1, 0.0005).first, 10'000 * 0.0005 / 0.9, 0.2) << "a slow disk";
  EXPECT_GT(Make(10'000, 0.00052, 0.0005).second, 0.99) << "it costs nothing";
}

}  // namespace
}  // namespace bulkhead

#include "server/supervisor/memory/recycle_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/supervisor/pool/replacement_gate.h"

namespace bulkhead::recycle_policy_test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class RecyclePolicyTest : public testing::Test {
 protected:
  // A worker that holds `base` and so much more with each sample, at 500 samples a second.
  void Grow(uint64_t samples, uint64_t base, uint64_t per_sample) {
    for (uint64_t s = 0; s <= samples; s += 4) {
      growth_.Note(s, base + s * per_sample, static_cast<int64_t>(s) * 2'000'000);
    }
  }
  RecycleFacts Facts() {
    RecycleFacts facts;
    facts.growth = &growth_;
    facts.quota_bytes = 256 * kMiB;
    facts.held_samples = 32;
    facts.warm_up = absl::Milliseconds(60);  // 30 samples
    return facts;
  }

  MemoryGrowth growth_;
};

TEST_F(RecyclePolicyTest, AWorkerIsDueWhenItsQuotaWouldBiteBeforeItCouldGo) {
  Grow(160, 20 * kMiB, kMiB);  // 180 MiB, and 62 more until it could go
  EXPECT_FALSE(DecideRecycling({}, Facts()).has_value());
  growth_ = {};
  Grow(164, 20 * kMiB, kMiB);
  const auto decision = DecideRecycling({}, Facts());
  ASSERT_TRUE(decision.has_value());
  EXPECT_EQ(decision->cause, v1::RECYCLE_CAUSE_GROWTH);
  EXPECT_THAT(decision->reason, testing::HasSubstr("184MiB of 256MiB after 164 samples"));
  EXPECT_DOUBLE_EQ(decision->samples_left, 72);
}

TEST_F(RecyclePolicyTest, AWorkerThatGoesWhenItIsDueHasNotMetItsQuota) {
  for (const uint64_t per_sample : {kMiB / 8, kMiB / 2, kMiB, 3 * kMiB / 2}) {
    growth_ = {};
    uint64_t samples = 0;
    while (!DecideRecycling({}, Facts()).has_value()) {
      growth_.Note(samples, 20 * kMiB + samples * per_sample,
                   static_cast<int64_t>(samples) * 2'000'000);
      samples += 4;
      ASSERT_LT(samples, 10'000u);
    }
    // 30 more until its successor is warm, and those that it holds.
    const uint64_t last = 20 * kMiB + (growth_.samples() + 30 + 32) * per_sample;
    EXPECT_LE(last, 256 * kMiB) << per_sample;
    EXPECT_GT(last, 230 * kMiB) << per_sample << ": earlier than needed";
  }
}

TEST_F(RecyclePolicyTest, ALongerWarmUpMakesItDueEarlier) {
  Grow(120, 20 * kMiB, kMiB);
  RecycleFacts facts = Facts();
  EXPECT_FALSE(DecideRecycling({}, facts).has_value());
  facts.warm_up = absl::Milliseconds(200);
  EXPECT_TRUE(DecideRecycling({}, facts).has_value());
}

TEST_F(RecyclePolicyTest, MuchMemoryThatDoesNotGrowIsNobodysFault) {
  Grow(2000, 250 * kMiB, 0);
  EXPECT_FALSE(DecideRecycling({}, Facts()).has_value());
}

TEST_F(RecyclePolicyTest, WorkersThatGrowAlikeAreDueAtDifferentShares) {
  Grow(15'000, 20 * kMiB, 10'000);  // 163 MiB: 64 % of the quota
  RecycleFacts facts = Facts();
  facts.slot_count = 4;
  EXPECT_FALSE(DecideRecycling({}, facts).has_value()) << "it may stop growing yet";
  facts.outgrows = true;
  std::vector<bool> due;
  for (facts.slot = 0; facts.slot < 4; ++facts.slot) {
    const auto decision = DecideRecycling({}, facts);
    due.push_back(decision.has_value());
    if (decision.has_value()) {
      EXPECT_EQ(decision->cause, v1::RECYCLE_CAUSE_SHARE);
    }
  }
  EXPECT_THAT(due, testing::ElementsAre(true, true, false, false));
  facts.slot = 0;
  facts.slot_count = 1;
  EXPECT_FALSE(DecideRecycling({}, facts).has_value());
}

TEST_F(RecyclePolicyTest, SamplesAndAgeCountWhereTheyAreAskedFor) {
  Grow(200, 20 * kMiB, 0);
  RecycleFacts facts = Facts();
  facts.age = absl::Seconds(10);
  EXPECT_FALSE(DecideRecycling({}, facts).has_value());
  RecycleConfig config;
  config.max_samples = 200;
  EXPECT_EQ(DecideRecycling(config, facts)->cause, v1::RECYCLE_CAUSE_SAMPLES);
  config.max_samples = 201;
  config.max_age = absl::Seconds(10);
  EXPECT_EQ(DecideRecycling(config, facts)->cause, v1::RECYCLE_CAUSE_AGE);
}

TEST_F(RecyclePolicyTest, GrowthCanBeLeftToTheQuota) {
  Grow(200, 20 * kMiB, kMiB);
  RecycleConfig config;
  config.by_growth = false;
  EXPECT_FALSE(DecideRecycling(config, Facts()).has_value());
}

TEST_F(RecyclePolicyTest, SaysWhenAGrowthIsTooFast) {
  Grow(60, 20 * kMiB, 4 * kMiB);
  EXPECT_THAT(TooFastToRecycle(Facts()), testing::HasSubstr("4MiB a sample at 500 samples"));
  growth_ = {};
  Grow(160, 20 * kMiB, kMiB);
  EXPECT_EQ(TooFastToRecycle(Facts()), "");
}

TEST(ReplacementGateTest, LetsOneInAtATimeInTheOrderOfComing) {
  ReplacementGate gate;
  int a = 0, b = 0, c = 0;
  EXPECT_TRUE(gate.TryEnter(&a));
  EXPECT_FALSE(gate.TryEnter(&b));
  EXPECT_FALSE(gate.TryEnter(&c));
  EXPECT_EQ(gate.waiting(), 2u);
  gate.Leave(&a);
  EXPECT_FALSE(gate.TryEnter(&c)) << "b has waited longer";
  EXPECT_FALSE(gate.TryEnter(&a));
  EXPECT_TRUE(gate.TryEnter(&b));
  gate.Leave(&c);  // does not want to any more
  gate.Leave(&b);
  EXPECT_TRUE(gate.TryEnter(&a));
}

TEST(ReplacementGateTest, StaysTakenByWhomItWasPassedTo) {
  ReplacementGate gate;
  int pool = 0, lost = 0, other = 0;
  ASSERT_TRUE(gate.TryEnter(&pool));
  gate.PassTo(&lost, &other);  // not its to pass
  EXPECT_TRUE(gate.holds(&pool));
  gate.PassTo(&lost, &pool);
  gate.NoteStuck(&lost);
  gate.Leave(&pool);
  EXPECT_TRUE(gate.stuck());
  EXPECT_FALSE(gate.TryEnter(&other));
  gate.Leave(&lost);
  EXPECT_FALSE(gate.stuck());
  EXPECT_TRUE(gate.TryEnter(&other));
  EXPECT_FALSE(gate.stuck());
}

}  // namespace
}  // namespace bulkhead::recycle_policy_test

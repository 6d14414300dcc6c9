#include "server/supervisor/memory/memory_growth.h"

#include <gtest/gtest.h>

namespace bulkhead::memory_growth_test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kQuota = 256 * kMiB;
constexpr int64_t kMilli = 1'000'000;

// A worker that begins with 20 MiB and does a sample every 2 ms.
template <typename Used>
MemoryGrowth Grown(uint64_t samples, const Used& used_at, uint64_t step = 4,
                   uint64_t expected = 0) {
  MemoryGrowth growth;
  growth.Expect(static_cast<double>(expected));
  for (uint64_t s = 0; s <= samples; s += step) {
    growth.Note(s, used_at(s), static_cast<int64_t>(s) * 2 * kMilli);
  }
  return growth;
}

uint64_t Leaking(uint64_t s) { return 20 * kMiB + s * kMiB; }

TEST(MemoryGrowthTest, KnowsALeakByItsSizePerSample) {
  const MemoryGrowth growth = Grown(100, Leaking);
  EXPECT_DOUBLE_EQ(growth.BytesPerSample(kQuota), kMiB);
  EXPECT_DOUBLE_EQ(growth.SamplesPerSecond(), 500);
  EXPECT_TRUE(growth.IsSteady(kQuota));
}

TEST(MemoryGrowthTest, APauseDoesNotMakeAWorkerSlow) {
  MemoryGrowth growth;
  int64_t now_ns = 0;
  for (uint64_t s = 0; s <= 500; s += 10) growth.Note(s, Leaking(s), now_ns += 20 * kMilli);
  // Nobody wants samples for a minute; then they come as before.
  for (int i = 0; i < 60; ++i) growth.Note(500, Leaking(500), now_ns += 1000 * kMilli);
  growth.Note(510, Leaking(510), now_ns += 20 * kMilli);
  EXPECT_DOUBLE_EQ(growth.SamplesPerSecond(), 500);
}

TEST(MemoryGrowthTest, ABurstDoesNotMakeAWorkerFast) {
  MemoryGrowth growth;
  int64_t now_ns = 0;
  uint64_t samples = 0;
  // The trainer takes a batch of 256 samples every 640 ms, which are made in 64 ms.
  for (int batch = 0; batch < 20; ++batch) {
    for (int i = 0; i < 4; ++i) growth.Note(samples += 64, Leaking(samples), now_ns += 16 * kMilli);
    for (int i = 0; i < 6; ++i) growth.Note(samples, Leaking(samples), now_ns += 96 * kMilli);
  }
  EXPECT_LE(growth.SamplesPerSecond(), 256 / 0.250);
  EXPECT_GE(growth.SamplesPerSecond(), 256 / 0.640);
  // A replacement that warms up within a burst has to be asked for in time.
  EXPECT_NEAR(growth.SamplesWithin(0.05), 200, 1e-6);
  EXPECT_LE(growth.SamplesWithin(1), 256 * 4);
}

TEST(MemoryGrowthTest, TakesNoWarmUpForALeak) {
  const MemoryGrowth growth = Grown(2000, [](uint64_t s) {
    return 20 * kMiB + (s < MemoryGrowth::kWarmUpSamples ? s * kMiB : 32 * kMiB);
  });
  EXPECT_EQ(growth.BytesPerSample(kQuota), 0);
  EXPECT_FALSE(growth.IsSteady(kQuota));
}

TEST(MemoryGrowthTest, ARatchetThatHasComeToRestIsNotSteady) {
  const MemoryGrowth growth =
      Grown(4000, [](uint64_t s) { return 20 * kMiB + (s < 400 ? 20 : 150) * kMiB; });
  EXPECT_FALSE(growth.IsSteady(kQuota));
  EXPECT_LT(growth.BytesPerSample(kQuota), 0.05 * kMiB);
}

TEST(MemoryGrowthTest, TheLaterHalfCountsWhereALeakBeginsLate) {
  const MemoryGrowth growth =
      Grown(2000, [](uint64_t s) { return 20 * kMiB + (s < 1900 ? 0 : (s - 1900) * kMiB); });
  EXPECT_GT(growth.BytesPerSample(kQuota), 0.09 * kMiB);
}

TEST(MemoryGrowthTest, WhatShrinksDoesNotGrow) {
  const MemoryGrowth growth = Grown(1000, [](uint64_t s) { return 200 * kMiB - s * kMiB / 10; });
  EXPECT_EQ(growth.BytesPerSample(kQuota), 0);
}

TEST(MemoryGrowthTest, ALeakThatFillsTheQuotaInAFewSamplesIsSeenBeforeTheWarmUpIsOver) {
  const auto fast = [](uint64_t s) { return 20 * kMiB + s * 6 * kMiB; };
  EXPECT_EQ(Grown(12, fast, 1).BytesPerSample(kQuota), 0);
  EXPECT_NEAR(Grown(24, fast, 1).BytesPerSample(kQuota), 6 * kMiB, kMiB);
}

TEST(MemoryGrowthTest, AWarmUpOfMoreThanHalfTheQuotaIsNoLeak) {
  const auto warming = [](uint64_t s) { return s == 0 ? 0 : kQuota * 6 / 10; };
  for (const uint64_t step : {1, 8, 16}) {
    for (uint64_t samples = 0; samples <= 128; samples += step) {
      EXPECT_EQ(Grown(samples, warming, step).BytesPerSample(kQuota), 0) << samples << " " << step;
    }
  }
}

TEST(MemoryGrowthTest, WhatTheWorkerBeforeGrewByIsBelievedOnceThreeLooksBearItOut) {
  const auto after = [](uint64_t bytes_per_sample, uint64_t samples) {
    MemoryGrowth growth;
    growth.Expect(static_cast<double>(2 * kMiB));
    for (uint64_t s = 0; s <= samples; s += 8) growth.Note(s, 20 * kMiB + s * bytes_per_sample, 0);
    return growth.BytesPerSample(kQuota);
  };
  EXPECT_EQ(after(2 * kMiB, 40), 0);
  EXPECT_EQ(after(2 * kMiB, 48), 2 * kMiB);
  EXPECT_EQ(after(kMiB, 48), 2 * kMiB);
  EXPECT_EQ(after(kMiB / 2, 48), 0);
  // What it does itself counts as soon as it can be told.
  EXPECT_EQ(after(kMiB, 80), kMiB);
}

TEST(MemoryGrowthTest, KnowsWhatCameSinceTheStart) {
  EXPECT_EQ(MemoryGrowth().SinceStart(), 0);
  EXPECT_EQ(Grown(8, Leaking).SinceStart(), kMiB);
}

TEST(MemoryGrowthTest, TheWorstIsLikelyWhileTooLittleIsKnown) {
  const auto warming = [](uint64_t s) { return 20 * kMiB + std::min<uint64_t>(s, 8) * kMiB; };
  EXPECT_EQ(Grown(8, warming, 1).LikelyBytesPerSample(kQuota), kMiB);
  const MemoryGrowth known = Grown(100, warming, 1);
  EXPECT_TRUE(known.is_known());
  EXPECT_EQ(known.LikelyBytesPerSample(kQuota), 0);
}

TEST(MemoryGrowthTest, OneStepOfMemoryBearsNothingOut) {
  MemoryGrowth growth;
  growth.Expect(static_cast<double>(kMiB));
  // A huge page, and looks that are a sample apart.
  for (uint64_t s = 0; s <= 36; ++s) {
    growth.Note(s, (s < 34 ? 20 : 22) * kMiB, static_cast<int64_t>(s) * kMilli);
    EXPECT_EQ(growth.BytesPerSample(kQuota), 0) << s;
  }
}

// After each of its first leases a worker is looked at, and a lease may be one sample.
TEST(MemoryGrowthTest, TheLaterHalfIsNothingWhileItIsAFewSamples) {
  MemoryGrowth growth;
  for (const uint64_t s : {0, 10, 20, 32, 44, 56, 68, 70, 71, 72}) growth.Note(s, 6 * kMiB, 0);
  for (const uint64_t s : {73, 74, 75}) {
    growth.Note(s, 7 * kMiB, 0);
    EXPECT_LT(growth.BytesPerSample(kQuota), 64 << 10) << s;
  }
}

// Memory fell just before it rose again, so that the lowest looks are two samples apart.
TEST(MemoryGrowthTest, OneStepBetweenCloseLooksIsNoLeak) {
  MemoryGrowth growth;
  for (const uint64_t s : {0, 32, 40}) growth.Note(s, 7 * kMiB, 0);
  growth.Note(49, 6 * kMiB, 0);
  for (const uint64_t s : {50, 51, 52}) {
    growth.Note(s, 7 * kMiB, 0);
    EXPECT_LE(growth.BytesPerSample(kQuota), 64 << 10) << s;
  }
}

// Every other look meets the worker in the middle of a large image.
TEST(MemoryGrowthTest, LargeImagesAreNoLeak) {
  const auto swinging = [](uint64_t s) { return 20 * kMiB + (s % 8 == 0 ? 190 * kMiB : 0); };
  for (uint64_t samples = 4; samples < 400; samples += 4) {
    EXPECT_EQ(Grown(samples, swinging).BytesPerSample(kQuota), 0) << samples;
    EXPECT_EQ(Grown(samples, swinging, 4, kMiB).BytesPerSample(kQuota), 0) << samples;
    EXPECT_FALSE(Grown(samples, swinging).IsSteady(kQuota)) << samples;
  }
}

TEST(MemoryGrowthTest, RemembersALongLifeInFewPoints) {
  const MemoryGrowth growth = Grown(
      1'000'000, [](uint64_t s) { return 20 * kMiB + s * 100; }, 16);
  EXPECT_NEAR(growth.BytesPerSample(kQuota), 100, 0.01);
  EXPECT_EQ(growth.peak_bytes(), 20 * kMiB + 100'000'000);
}

}  // namespace
}  // namespace bulkhead::memory_growth_test

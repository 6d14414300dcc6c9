// Stages without a leak, whatever they hold, are neither replaced for growth nor called leaks; and
// leaks are, before the quota is met.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/supervisor/memory/recycle_policy.h"
#include "server/supervisor/verdict/worker_curves.h"

namespace bulkhead::leak_free_test {
namespace {

constexpr double kMiB = 1 << 20;
constexpr double kQuota = 512 * kMiB;
constexpr uint64_t kHeld = 32;
constexpr uint64_t kSamples = 30'000;

// One worker's life: what it holds after so many samples, beside what a sample takes for itself.
struct Life {
  std::string name;
  std::function<double(uint64_t)> kept_at;
  double sample_bytes = 0;
  bool swings = false;  // it has a highest level, but never comes to rest
};

// What happened to it.
struct End {
  uint64_t prepared = 0;  // looks at which a successor would stand by
  uint64_t replaced_at = 0;
  std::string reason;
  bool met_quota = false;
  v1::Verdict verdict;
  uint64_t called_leak_at = 0;
};

// Lives it: looks come every 1 to 40 samples, at a random place within a sample. While a successor
// stands by, it gets no more samples than fit until the next look.
End Live(const Life& life, uint64_t seed, uint64_t samples = kSamples) {
  std::mt19937_64 random(seed);
  MemoryGrowth growth;
  WorkerCurves curves;
  FlightSnapshot flight;
  flight.stages.push_back({"stages[0] python", 0, 0, 0, 0, 0});
  RecycleFacts facts;
  facts.growth = &growth;
  facts.quota_bytes = static_cast<uint64_t>(kQuota);
  facts.held_samples = kHeld;
  facts.warm_up = absl::Milliseconds(100);
  facts.slot_count = 4;
  End end;
  const uint64_t most = 1 + random() % 40;
  uint64_t room = most;
  for (uint64_t done = 0; done < samples; done += std::min(room, 1 + random() % most)) {
    const double inside = static_cast<double>(random() % 1000) / 1000 * life.sample_bytes;
    const double held = life.kept_at(done) + inside;
    end.met_quota = end.met_quota || held > kQuota;
    flight.samples = done;
    flight.stages[0].live_bytes = static_cast<int64_t>(held - life.kept_at(0));
    growth.Note(done, static_cast<uint64_t>(held), static_cast<int64_t>(done) * 2'000'000);
    curves.Note(flight, static_cast<uint64_t>(held));
    end.verdict = curves.Judge(facts.quota_bytes, /*outgrew=*/false);
    if (Keeps(end.verdict) && end.called_leak_at == 0) end.called_leak_at = done;
    facts.outgrows = Keeps(end.verdict);
    const auto decision = DecideRecycling({}, facts);
    room = decision.has_value() ? SamplesUntilFull(growth, facts.quota_bytes) : most;
    if (!decision.has_value()) continue;
    ++end.prepared;
    if (!decision->is_certain) continue;
    end.replaced_at = done;
    end.reason = decision->reason;
    return end;
  }
  return end;
}

double Share(std::mt19937_64& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

// All that a stage without a leak may do; `total` is the highest that it reaches.
std::vector<Life> LeakFree(std::mt19937_64& random) {
  const double total = Share(random, 0.1, 0.9) * kQuota;
  const double base = std::min(total / 2, Share(random, 5, 60) * kMiB);
  const double kept = total - base;
  const double settled = Share(random, 4, 5'000);
  const uint64_t first = 1 + random() % 200;
  const auto steps = 2 + random() % 12;
  const double period = Share(random, 300, 2'500);
  return {
      {"a table made at import", [=](uint64_t) { return total; }},
      // Made in pieces before the first sample is done, and in each of the first few.
      {"a table made at the first call", [=](uint64_t n) { return n < 1 ? base : total; }},
      {"tables made at the first calls",
       [=](uint64_t n) { return base + kept * static_cast<double>(std::min<uint64_t>(n, 3)) / 3; }},
      {"a table made later", [=](uint64_t n) { return n < first ? base : total; }},
      {"a table made lazily over 1,000 calls",
       [=](uint64_t n) { return base + kept * std::min(1.0, static_cast<double>(n) / 1000); }},
      {"a table made lazily",
       [=](uint64_t n) { return base + kept * std::min(1.0, static_cast<double>(n) / settled); }},
      {"a cache that fills with what is new",
       [=](uint64_t n) {
         return base + kept * (1 - std::exp(-5 * static_cast<double>(n) / settled));
       }},
      {"an allocator that comes to rest in steps",
       [=](uint64_t n) {
         const double part = std::min(1.0, static_cast<double>(n) / settled);
         return base +
                kept * std::floor(part * static_cast<double>(steps)) / static_cast<double>(steps);
       }},
      {"a buffer that fills and empties",
       [=](uint64_t n) { return base + kept * std::fmod(static_cast<double>(n), period) / period; },
       0, true},
      {"large samples", [=](uint64_t) { return base; }, kept, true},
  };
}

TEST(LeakFreeTest, WhatLevelsOffIsNeverReplacedForGrowthAndNeverCalledALeak) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    for (const Life& life : LeakFree(random)) {
      const End end = Live(life, seed);
      EXPECT_EQ(end.replaced_at, 0u) << life.name << ", seed " << seed << ": " << end.reason;
      EXPECT_EQ(end.called_leak_at, 0u) << life.name << ", seed " << seed;
      if (life.swings) continue;
      EXPECT_TRUE(end.verdict.kind() == v1::VERDICT_KIND_CLEAN ||
                  end.verdict.kind() == v1::VERDICT_KIND_CACHE)
          << life.name << ", seed " << seed << ": " << v1::VerdictKind_Name(end.verdict.kind());
    }
  }
}

// As a worker's memory went that decoded photos of very different sizes.
TEST(LeakFreeTest, BuffersThatMeetEverLargerImagesAreNoRetention) {
  const auto finding_at_the_end = [](double step) {
    WorkerCurves curves;
    FlightSnapshot flight;
    flight.stages.push_back({"stages[0] decode_image", 0, 0, 0, 0, 0});
    for (uint64_t done = 0; done < 12'000; done += 20) {
      flight.samples = done;
      const double held = 4 * kMiB + step * std::log2(1 + static_cast<double>(done) / 500);
      curves.Note(flight, static_cast<uint64_t>(held));
    }
    return curves.Judge(static_cast<uint64_t>(kQuota), /*outgrew=*/false);
  };
  EXPECT_EQ(finding_at_the_end(4 * kMiB).kind(), v1::VERDICT_KIND_CACHE);
  EXPECT_EQ(finding_at_the_end(40 * kMiB).kind(), v1::VERDICT_KIND_RETENTION);
}

TEST(LeakFreeTest, ALeakIsReplacedBeforeTheQuotaIsMet) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    const double per_sample = std::exp(Share(random, std::log(16 * 1024), std::log(kMiB)));
    const double base = Share(random, 0.05, 0.5) * kQuota;
    const Life leak{"a leak",
                    [=](uint64_t n) { return base + per_sample * static_cast<double>(n); }};
    const End end = Live(leak, seed, 50'000);
    EXPECT_GT(end.replaced_at, 0u) << "seed " << seed;
    EXPECT_FALSE(end.met_quota) << "seed " << seed;
    EXPECT_GT(end.prepared, 0u);
  }
}

TEST(LeakFreeTest, ALeakOfFourKibibytesIsCalledOneWithin20000Samples) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    const double base = Share(random, 0.05, 0.5) * kQuota;
    const Life leak{"a leak", [=](uint64_t n) { return base + 4096.0 * static_cast<double>(n); },
                    Share(random, 0, 20) * kMiB};
    const End end = Live(leak, seed);
    EXPECT_GT(end.called_leak_at, 0u) << "seed " << seed;
    EXPECT_LE(end.called_leak_at, 20'000u) << "seed " << seed;
    EXPECT_EQ(end.verdict.kind(), v1::VERDICT_KIND_LEAK);
    EXPECT_NEAR(end.verdict.bytes_per_sample(), 4096, end.verdict.bound_bytes() + 100)
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace bulkhead::leak_free_test

#include "server/sampler/apportionment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace bulkhead {
namespace {

using Weights = std::vector<double>;
using Counts = std::vector<uint64_t>;

const Weights kMixtures[] = {
    {1},
    {1, 1},
    {0.9, 0.1},
    {0.1, 0.9},
    {1, 2, 4},
    {4, 2, 1},
    {1, 1, 1},
    {0.5, 0.3, 0.2},
    {3, 1e-3, 7, 0.5},
    {1, 1, 1, 1, 1, 1, 1},
    {13, 8, 5, 3, 2, 1, 1, 0.5, 0.25, 0.125, 0.1, 0.01},
};

// ½ (1 + 1 + ½ + … + 1 / (k − 2)) for k > 2 sources, ½ for two, 0 for one.
double Bound(size_t sources) {
  if (sources < 2) return 0;
  double sum = 1;
  for (size_t j = 1; j + 1 < sources; ++j) sum += 1.0 / static_cast<double>(j);
  return sum / 2;
}

TEST(ApportionmentTest, EveryPrefixKeepsTheProportions) {
  for (const Weights& weights : kMixtures) {
    const Apportionment apportionment(weights);
    const double whole = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (uint64_t length = 0; length <= 5000; ++length) {
      const Counts counts = apportionment.Counts(length);
      for (size_t i = 0; i < weights.size(); ++i) {
        const double ideal = weights[i] / whole * static_cast<double>(length);
        ASSERT_LE(std::abs(static_cast<double>(counts[i]) - ideal), Bound(weights.size()) + 1e-9)
            << "source " << i << " of " << weights.size() << ", length " << length;
      }
    }
  }
}

TEST(ApportionmentTest, EverySampleGoesToOneSource) {
  for (const Weights& weights : kMixtures) {
    const Apportionment apportionment(weights);
    Counts before = apportionment.Counts(0);
    EXPECT_EQ(before, Counts(weights.size(), 0));
    for (uint64_t length = 1; length <= 5000; ++length) {
      const Counts counts = apportionment.Counts(length);
      uint64_t added = 0;
      for (size_t i = 0; i < counts.size(); ++i) {
        ASSERT_GE(counts[i], before[i]) << "source " << i << ", length " << length;
        added += counts[i] - before[i];
      }
      ASSERT_EQ(added, 1) << length;
      before = counts;
    }
  }
}

TEST(ApportionmentTest, WholeSharesAreExactHoweverFarAway) {
  const Apportionment two(Weights{0.9, 0.1});
  const Apportionment three(Weights{0.7, 0.1, 0.2});
  for (uint64_t tens = 1; tens < Apportionment::kMaxLength / 10; tens = tens * 3 + 1) {
    ASSERT_EQ(two.Counts(10 * tens), (Counts{9 * tens, tens}));
    ASSERT_EQ(three.Counts(10 * tens), (Counts{7 * tens, tens, 2 * tens}));
  }
}

// The brute-force model: walk until the policy says stop.
TEST(ApportionmentTest, LengthsAreThoseOfAWalk) {
  for (const Weights& weights : {Weights{0.9, 0.1}, Weights{1, 1}, Weights{1, 2, 4},
                                 Weights{5, 1, 1}, Weights{0.3, 0.3, 0.4}}) {
    const Apportionment apportionment(weights);
    const size_t k = weights.size();
    Counts sizes(k, 1);
    do {
      uint64_t within = 0;
      while (true) {
        const Counts counts = apportionment.Counts(within + 1);
        bool fits = true;
        for (size_t i = 0; i < k; ++i) fits = fits && counts[i] <= sizes[i];
        if (!fits) break;
        ++within;
      }
      uint64_t with = 0;
      while (true) {
        const Counts counts = apportionment.Counts(with);
        bool all = true;
        for (size_t i = 0; i < k; ++i) all = all && counts[i] >= sizes[i];
        if (all) break;
        ++with;
      }
      ASSERT_EQ(apportionment.LongestWithin(sizes), within);
      ASSERT_EQ(apportionment.ShortestWith(sizes), with);
      size_t digit = 0;  // the next combination of sizes from 1 to 9
      while (digit < k && ++sizes[digit] == 10) sizes[digit++] = 1;
      if (digit == k) break;
    } while (true);
  }
}

TEST(ApportionmentTest, WhatIsTooLongIsSaid) {
  const Apportionment apportionment(Weights{1e9, 1e-9});
  EXPECT_EQ(apportionment.ShortestWith(Counts{1, 1000}), std::nullopt);
  EXPECT_EQ(apportionment.LongestWithin(Counts{UINT64_MAX, 5}), Apportionment::kMaxLength);
}

TEST(ApportionmentTest, NeverChanges) {
  EXPECT_EQ(Apportionment(Weights{1, 2, 4, 0.3}).Counts(1'000'003),
            (Counts{136987, 273973, 547947, 41096}));
}

}  // namespace
}  // namespace bulkhead

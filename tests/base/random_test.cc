#include "server/base/random.h"

#include <gtest/gtest.h>

#include <vector>

namespace bulkhead {
namespace {

// Known answers published with Random123 (kat_vectors, philox4x32 10).
TEST(PhiloxTest, MatchesPublishedVectors) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(SampleRandomTest, IsAFunctionOfItsKey) {
  SampleRandom a(1, 2, 3, StableHash("stages/0"));
  SampleRandom b(1, 2, 3, StableHash("stages/0"));
  for (int i = 0; i < 9; ++i) EXPECT_EQ(a.Next32(), b.Next32());
}

TEST(SampleRandomTest, EveryPartOfTheKeyMatters) {
  const uint64_t base = SampleRandom(1, 2, 3, 4).Next64();
  EXPECT_NE(SampleRandom(9, 2, 3, 4).Next64(), base);
  EXPECT_NE(SampleRandom(1, 9, 3, 4).Next64(), base);
  EXPECT_NE(SampleRandom(1, 2, 9, 4).Next64(), base);
  EXPECT_NE(SampleRandom(1, 2, 3, 9).Next64(), base);
}

TEST(SampleRandomTest, NextBelowIsUniform) {
  SampleRandom random(7, 0, 0, 0);
  std::vector<int> counts(5);
  for (int i = 0; i < 50000; ++i) ++counts[random.NextBelow(5)];
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - 10000.0) * (count - 10000.0) / 10000.0;
  EXPECT_LT(chi_square, 18.47);  // 4 degrees of freedom, p = 0.001; the seed is fixed
}

TEST(SampleRandomTest, UnitsStayInRange) {
  SampleRandom random(8, 0, 0, 0);
  for (int i = 0; i < 10000; ++i) {
    const double unit = random.NextUnit();
    EXPECT_GE(unit, 0.0);
    EXPECT_LT(unit, 1.0);
  }
}

// The data format: a change of this value changes every user's batches.
TEST(StableHashTest, NeverChanges) {
  EXPECT_EQ(StableHash("stages/0"), StableHash("stages/0"));
  EXPECT_NE(StableHash("stages/0"), StableHash("stages/1"));
}

}  // namespace
}  // namespace bulkhead

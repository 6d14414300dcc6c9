#include "server/image/jpeg/huffman_table.h"

#include <gtest/gtest.h>

#include <memory>

namespace bulkhead::jpeg {
namespace {

// Codes 00, 010, 011, 100, 101 for the given symbols, and one of 16 bits: 1100 0000 0000 0000.
HuffmanSpec SomeCodes(std::array<uint8_t, 6> symbols) {
  HuffmanSpec spec;
  spec.counts[1] = 1;
  spec.counts[2] = 4;
  spec.counts[15] = 1;
  std::copy(symbols.begin(), symbols.end(), spec.symbols.begin());
  spec.symbol_count = 6;
  return spec;
}

uint64_t Bits(absl::string_view text) {
  uint64_t bits = 0;
  int at = 63;
  for (const char c : text) {
    if (c != ' ') bits |= static_cast<uint64_t>(c == '1') << at--;
  }
  return bits;
}

TEST(JpegHuffmanTableTest, FindsCodesOfEveryLength) {
  CanonicalCodes codes;
  ASSERT_TRUE(codes.Build(SomeCodes({1, 2, 3, 4, 5, 6})));
  const auto find = [&](absl::string_view text) {
    const auto found = codes.Find(static_cast<uint32_t>(Bits(text) >> 48));
    return std::pair(found.length, static_cast<int>(found.symbol));
  };
  EXPECT_EQ(find("0011 1111 1111 1111"), std::pair(2, 1));
  EXPECT_EQ(find("0100 0000 0000 0000"), std::pair(3, 2));
  EXPECT_EQ(find("1011 1111 1111 1111"), std::pair(3, 5));
  EXPECT_EQ(find("1100 0000 0000 0000"), std::pair(16, 6));
  EXPECT_EQ(find("1100 0000 0000 0001"), std::pair(0, 0));
  EXPECT_EQ(find("1111 1111 1111 1111"), std::pair(0, 0));
}

TEST(JpegHuffmanTableTest, RefusesLengthsThatNoCodeHas) {
  CanonicalCodes codes;
  HuffmanSpec spec;
  spec.counts[0] = 2;  // the second code of one bit would be all ones
  spec.symbol_count = 2;
  EXPECT_FALSE(codes.Build(spec));
  spec.counts[0] = 1;
  spec.counts[2] = 4;
  spec.symbol_count = 5;
  EXPECT_FALSE(codes.Build(spec));
  spec.counts[2] = 3;
  spec.symbol_count = 4;
  EXPECT_TRUE(codes.Build(spec));
}

TEST(JpegHuffmanTableTest, RefusesDcValuesOfMoreThan15Bits) {
  const auto table = std::make_unique<DcTable>();
  EXPECT_TRUE(table->Build(SomeCodes({0, 1, 2, 3, 4, 15})));
  EXPECT_FALSE(table->Build(SomeCodes({0, 1, 2, 3, 4, 16})));
  EXPECT_TRUE(table->Build(SomeCodes({0, 1, 2, 3, 4, 15})));
}

struct Read {
  int bits, zeros, second_behind, first, second;
  bool end;

  friend bool operator==(const Read&, const Read&) = default;
};

Read ReadEntry(AcEntry entry) {
  return {static_cast<int>(entry & 63),       static_cast<int>(entry >> 6 & 15),
          static_cast<int>(entry >> 10 & 31), static_cast<int8_t>(entry >> 16),
          static_cast<int8_t>(entry >> 24),   (entry & kEndOfBlock) != 0};
}

TEST(JpegHuffmanTableTest, OneLookupTellsOneOrTwoSymbols) {
  // 00: end of block; 010: one bit; 011: two zeros, then three bits; 100: 16 zeros; 101: 9 bits.
  const auto table = std::make_unique<AcTable>();
  ASSERT_TRUE(table->Build(SomeCodes({0x00, 0x01, 0x23, 0xF0, 0x09, 0x02}), 15));
  const auto read = [&](absl::string_view text) { return ReadEntry(table->entry(Bits(text))); };
  EXPECT_EQ(read("00 1111"), (Read{2, 0, 0, 0, 0, true}));
  EXPECT_EQ(read("010 1 00"), (Read{6, 0, 0, 1, 1, true}));
  EXPECT_EQ(read("010 0 010 1"), (Read{8, 0, 1, -1, 1, false}));
  EXPECT_EQ(read("010 1 011 010"), (Read{10, 0, 3, 1, -5, false}));
  EXPECT_EQ(read("100 010 1"), (Read{7, 15, 1, 0, 1, false}));
  EXPECT_EQ(read("011 111 100"), (Read{9, 2, 16, 7, 0, false}));
  // The second one does not fit any more: the first stands for itself.
  EXPECT_EQ(read("011 100 011 111"), (Read{6, 2, 0, 4, 4, false}));
  EXPECT_EQ(read("010 1 1100 0000 0000 0000"), (Read{4, 0, 0, 1, 1, false}));
  // A value that is too long, and a code that is.
  EXPECT_EQ(table->entry(Bits("101")), (3u << 8 | 0x09u << 16));
  EXPECT_EQ(table->entry(Bits("1100 0000 0000 0000")), 0u);
  EXPECT_EQ(table->entry(Bits("1111")), 0u);
}

TEST(JpegHuffmanTableTest, LeavesLargeValuesToBeChecked) {
  const auto table = std::make_unique<AcTable>();
  const HuffmanSpec spec = SomeCodes({0x00, 0x01, 0x23, 0xF0, 0x04, 0x02});
  ASSERT_TRUE(table->Build(spec, 3));
  EXPECT_EQ(table->entry(Bits("101 1111")), (3u << 8 | 0x04u << 16));
  ASSERT_TRUE(table->Build(spec, 4));
  EXPECT_EQ(ReadEntry(table->entry(Bits("101 1111 1111"))), (Read{7, 0, 0, 15, 15, false}));
}

}  // namespace
}  // namespace bulkhead::jpeg

#include "server/image/jpeg/scan_bytes.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/base/random.h"

namespace bulkhead::jpeg {
namespace {

// Entropy-coded data, with its stuffing, and EOI.
struct Data {
  std::string file;
  std::string plain;            // without stuffing
  std::vector<size_t> offsets;  // in the file, of each plain byte
};

Data MakeData(size_t count, int ff_in, uint64_t seed) {
  SampleRandom random(seed, 0, 0, 0);
  Data data;
  for (size_t i = 0; i < count; ++i) {
    const char byte =
        random.NextBelow(ff_in) == 0 ? '\xFF' : static_cast<char>(random.NextBelow(256));
    data.offsets.push_back(data.file.size());
    data.plain += byte;
    data.file += byte;
    if (byte == '\xFF') data.file += '\0';
  }
  data.file += "\xFF\xD9";
  return data;
}

TEST(JpegScanBytesTest, GivesAllBytesWithoutStuffingAndKnowsWhereTheyStand) {
  for (const int ff_in : {1, 2, 300}) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{100}, size_t{16384}, size_t{70000}}) {
      const Data data = MakeData(count, ff_in, count + ff_in);
      const auto bytes = std::make_unique<ScanBytes>();
      bytes->Begin(data.file, 0);
      const uint8_t* at = bytes->begin();
      SampleRandom random(7, 0, 0, 0);
      for (size_t i = 0; i < count;) {
        at = bytes->Fill(at);
        ASSERT_EQ(bytes->FileOffset(at), data.offsets[i]);
        const size_t mcu = std::min<size_t>(1 + random.NextBelow(2000), count - i);
        ASSERT_EQ(std::string(reinterpret_cast<const char*>(at), mcu), data.plain.substr(i, mcu));
        ASSERT_FALSE(bytes->IsBeyond(at + mcu, 0));
        at += mcu;
        i += mcu;
        ASSERT_EQ(bytes->MarkerBehind(at, 0), i == count ? data.file.size() - 2 : 0);
      }
      at = bytes->Fill(at);
      EXPECT_TRUE(bytes->IsBeyond(at + 1, 7));
      EXPECT_FALSE(bytes->IsBeyond(at + 1, 8));
      EXPECT_EQ(bytes->MarkerBehind(at, 7), data.file.size() - 2);
      EXPECT_EQ(bytes->MarkerBehind(at, 8), 0u);
      EXPECT_EQ(bytes->MarkerBehind(at + 1, 7), 0u);
    }
  }
}

TEST(JpegScanBytesTest, KeepsWhatTheDecoderHoldsAlready) {
  constexpr size_t kHeld = ScanBytes::kHeldBytes;
  for (const int ff_in : {1, 3, 300}) {
    const Data data = MakeData(70000, ff_in, ff_in);
    const auto bytes = std::make_unique<ScanBytes>();
    bytes->Begin(data.file, 0);
    const uint8_t* at = bytes->begin() + kHeld;
    // Steps that meet the end of a piece at all kinds of places.
    for (size_t i = kHeld; i < data.plain.size(); i += 701, at += 701) {
      at = bytes->Fill(at);
      ASSERT_EQ(std::string(reinterpret_cast<const char*>(at) - kHeld, kHeld),
                data.plain.substr(i - kHeld, kHeld));
      ASSERT_EQ(bytes->FileOffset(at - kHeld), data.offsets[i - kHeld]);
    }
  }
}

TEST(JpegScanBytesTest, BeginsAnywhereAndEndsAtAnyMarker) {
  std::string file = "header";
  file += "ab";
  file += std::string("\xFF\0", 2);
  file += "c\xFF\xD3 more";
  const auto bytes = std::make_unique<ScanBytes>();
  bytes->Begin(file, 7);
  const uint8_t* at = bytes->Fill(bytes->begin());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(at), 3),
            "b\xFF"
            "c");
  EXPECT_EQ(bytes->MarkerBehind(at + 3, 0), 11u);
  // Fill bytes before a marker belong to it.
  file = "ab\xFF\xFF\xD9";
  bytes->Begin(file, 0);
  EXPECT_EQ(bytes->MarkerBehind(bytes->begin() + 2, 0), 2u);
  // A file that ends without one, which the callers rule out, is read to its end.
  file = "ab";
  bytes->Begin(file, 0);
  EXPECT_TRUE(bytes->IsBeyond(bytes->begin() + 3, 0));
  file = "ab\xFF";
  bytes->Begin(file, 0);
  EXPECT_TRUE(bytes->IsBeyond(bytes->begin() + 3, 0));
}

}  // namespace
}  // namespace bulkhead::jpeg

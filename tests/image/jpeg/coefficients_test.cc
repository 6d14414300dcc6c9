#include "server/image/jpeg/coefficients.h"

#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/base/value_map.h"
#include "server/image/codecs/jpeg_decoder.h"
#include "tests/image/jpeg/jpeg_files.h"

namespace bulkhead {
namespace {

// A decoder that keeps coefficients, and one that does not.
struct Keeping {
  ValueMap map;
  JpegDecoder with{JpegDecoder::Way::kFastest};
  JpegDecoder without{JpegDecoder::Way::kFastest};

  Keeping() { Use(1, JpegDecoder::Making::kAll); }
  void Use(uint64_t record, JpegDecoder::Making making) {
    with.SetStores({.coefficients = &map, .record = {{record, 0}}, .making = making});
  }

  void ExpectEqual(const std::string& file, const Rect& share, PixelFormat format) {
    const JpegOutcome one = DecodeShareOf(with, file, format, share);
    const JpegOutcome other = DecodeShareOf(without, file, format, share);
    ASSERT_EQ(one.reason, other.reason);
    ASSERT_EQ(one.message, other.message);
    ASSERT_TRUE(one.pixels == other.pixels)
        << "part " << share.top << " " << share.left << " " << share.height << " " << share.width;
  }
};

TEST(JpegCoefficientsTest, ChangeNoPixelOfAnyKindOfFile) {
  SampleRandom random(21, 0, 0, 0);
  Keeping decoders;
  for (int i = 0; i < 600; ++i) {
    const JpegRecipe recipe = RandomRecipe(random, i % 5 == 0 ? 400 : 100);
    SCOPED_TRACE(absl::StrCat(i, ": ", recipe.height, " x ", recipe.width, " sampling ", recipe.h,
                              " ", recipe.v, " quality ", recipe.quality));
    const std::string file = MakeJpegFile(recipe);
    if (file.empty()) continue;
    decoders.map.Clear();
    for (int part = 0; part < 6; ++part) {
      const Rect share = part == 3 ? kWholeShare : RandomRectIn({4096, 4096}, random);
      decoders.ExpectEqual(file, share, static_cast<PixelFormat>(random.NextBelow(4)));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  const jpeg::DecodeCounts& counts = decoders.with.counts();
  EXPECT_GT(counts.coefficients_made, 500u);
  EXPECT_GT(counts.coefficients_found, 4 * counts.coefficients_made);
}

TEST(JpegCoefficientsTest, ChangeNoVerdictOnDamagedFiles) {
  SampleRandom random(22, 0, 0, 0);
  Keeping decoders;
  for (int i = 0; i < 2000; ++i) {
    SCOPED_TRACE(i);
    std::string file = MakeJpegFile(RandomRecipe(random, 150));
    if (file.empty()) continue;
    file = DamageJpeg(std::move(file), random);
    decoders.map.Clear();
    for (int part = 0; part < 4; ++part) {
      const Rect share = part == 2 ? kWholeShare : RandomRectIn({4096, 4096}, random);
      decoders.ExpectEqual(file, share, PixelFormat::kRgb);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  EXPECT_GT(decoders.with.counts().coefficients_found, 500u);
}

// They have the most to gain: libjpeg takes several passes over them.
TEST(JpegCoefficientsTest, ChangeNoPixelAndNoVerdictOfProgressiveFiles) {
  SampleRandom random(26, 0, 0, 0);
  Keeping decoders;
  for (int i = 0; i < 600; ++i) {
    SCOPED_TRACE(i);
    JpegRecipe recipe = RandomRecipe(random, i % 5 == 0 ? 400 : 100);
    recipe.progressive = true;
    std::string file = MakeJpegFile(recipe);
    if (file.empty()) continue;
    if (i % 3 == 0) file = DamageJpeg(std::move(file), random);
    decoders.map.Clear();
    for (int part = 0; part < 4; ++part) {
      const Rect share = part == 2 ? kWholeShare : RandomRectIn({4096, 4096}, random);
      decoders.ExpectEqual(file, share, static_cast<PixelFormat>(random.NextBelow(4)));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  const jpeg::DecodeCounts& counts = decoders.with.counts();
  EXPECT_GT(counts.coefficients_made, 300u);
  EXPECT_GT(counts.coefficients_found, 900u);
}

// What is missing of the coefficients libjpeg makes up, to smooth blocks.
TEST(JpegCoefficientsTest, AreNotMadeOfAProgressiveFileThatLacksAScan) {
  JpegRecipe recipe = PhotoRecipe();
  recipe.progressive = true;
  std::string file = MakeJpegFile(recipe);
  const size_t last_scan = file.rfind("\xFF\xDA");
  ASSERT_NE(last_scan, std::string::npos);
  file.resize(last_scan);
  file += "\xFF\xD9";
  Keeping decoders;
  for (int i = 0; i < 2; ++i) decoders.ExpectEqual(file, kWholeShare, PixelFormat::kRgb);
  EXPECT_EQ(decoders.map.only(), jpeg::Coefficients::None());
  EXPECT_EQ(DecodeShareOf(decoders.with, file, PixelFormat::kRgb, kWholeShare).reason, "");
}

// A file whose coefficients are kept is opened without a look at all of its markers.
TEST(JpegCoefficientsTest, ChangeNoLimitAndNoVerdictAfterTheyWereDamaged) {
  const std::string file = MakeJpegFile(PhotoRecipe());
  Keeping decoders;
  for (int i = 0; i < 2; ++i) decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  EXPECT_EQ(decoders.with.counts().coefficients_found, 1u);
  const auto kept = decoders.with.Open(file, 100);
  const auto scanned = decoders.without.Open(file, 100);
  EXPECT_EQ(kept.status(), scanned.status());
  EXPECT_EQ(GetErrorInfo(kept.status())->reason, reason::kImageTooLarge);

  for (char& byte : decoders.map.only()) byte = static_cast<char>(byte ^ 1);
  decoders.Use(1, JpegDecoder::Making::kNone);
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  EXPECT_EQ(decoders.with.counts().coefficients_found, 1u);
}

TEST(JpegCoefficientsTest, NothingOfTheScanIsDecodedAgain) {
  for (const int restart : {0, 7}) {
    const std::string file = MakeJpegFile(PhotoRecipe(restart));
    Keeping decoders;
    decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
    decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
    decoders.ExpectEqual(file, kWholeShare, PixelFormat::kRgb);
    EXPECT_EQ(decoders.with.counts().coefficients_made, 1u);
    EXPECT_EQ(decoders.with.counts().coefficients_found, 2u);
    EXPECT_EQ(decoders.with.counts().mcus_read, 0u);
  }
}

TEST(JpegCoefficientsTest, AreNotMadeOfAFileThatIsDamagedBelow) {
  std::string file = MakeJpegFile(PhotoRecipe());
  // The last MCUs lose some bytes.
  file.erase(file.size() - 60, 40);
  Keeping decoders;
  for (int i = 0; i < 2; ++i) decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  // That it has none is known, so that nobody tries again.
  EXPECT_EQ(decoders.map.only(), jpeg::Coefficients::None());
  EXPECT_EQ(decoders.with.counts().coefficients_made, 1u);
  EXPECT_EQ(decoders.with.counts().coefficients_found, 0u);
  decoders.ExpectEqual(file, kWholeShare, PixelFormat::kRgb);
}

TEST(JpegCoefficientsTest, DamagedOnesAreNotUsed) {
  const std::string file = MakeJpegFile(PhotoRecipe());
  Keeping decoders;
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  const std::string good = decoders.map.only();
  SampleRandom random(23, 0, 0, 0);
  for (int i = 0; i < 100; ++i) {
    std::string bad = good;
    bad[random.NextBelow(bad.size() - jpeg::PackedRow::kReadBeyond)] ^= 1 << random.NextBelow(8);
    decoders.map.only() = bad;
    decoders.ExpectEqual(file, kWholeShare, PixelFormat::kRgb);
  }
  for (size_t bytes = 0; bytes < good.size(); bytes += 397) {
    decoders.map.only() = good.substr(0, bytes);
    decoders.ExpectEqual(file, kWholeShare, PixelFormat::kRgb);
  }
  EXPECT_EQ(decoders.with.counts().coefficients_found, 0u);
  // What is damaged elsewhere does no harm.
  decoders.map.only() = good;
  decoders.map.only()[good.size() - 100] ^= 1;
  decoders.ExpectEqual(file, {0, 0, 1000, 1000}, PixelFormat::kRgb);
  EXPECT_EQ(decoders.with.counts().coefficients_found, 1u);
}

// Makes the checksums right, as a dishonest writer does.
void Forge(std::string& bytes, const StoreKey& key) {
  const size_t down = LoadLittle<uint16_t>(bytes.data() + 6);
  const auto offset = [&](size_t band) {
    return LoadLittle<uint32_t>(bytes.data() + 8 + 4 * band);
  };
  const size_t head = 8 + 4 * (2 * down + 1);
  for (size_t band = 0; band < down; ++band) {
    if (offset(band) > offset(band + 1) || offset(band + 1) > bytes.size()) continue;
    StoreLittle<uint32_t>(
        bytes.data() + 8 + 4 * (down + 1 + band),
        Crc32c(absl::string_view(bytes).substr(offset(band), offset(band + 1) - offset(band))));
  }
  const absl::string_view words(reinterpret_cast<const char*>(key.words), sizeof(key.words));
  StoreLittle<uint32_t>(bytes.data(),
                        Crc32c(absl::string_view(bytes).substr(4, head - 4), Crc32c(words)));
}

// Whatever they say, nothing is read or written beyond its end (this is for sanitizers).
TEST(JpegCoefficientsTest, MayBeAnyBytes) {
  SampleRandom random(24, 0, 0, 0);
  const std::string file = MakeJpegFile(PhotoRecipe());
  Keeping decoders;
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  const std::string good = decoders.map.only();
  const size_t down = LoadLittle<uint16_t>(good.data() + 6);
  uint64_t used = 0;
  for (int i = 0; i < 600; ++i) {
    std::string bad = good;
    // In values, in what says where they are, or in the table of bands.
    const size_t begin = i % 3 == 2 ? 8 : 8 + 4 * (2 * down + 1);
    const size_t end = i % 3 == 2 ? begin + 4 * (down + 1) : bad.size();
    const uint64_t share = i % 3 == 0 ? 4 : 4000;
    for (size_t at = begin; at < end; ++at) {
      if (random.NextBelow(share) == 0) bad[at] = static_cast<char>(random.NextBelow(256));
    }
    Forge(bad, JpegDecoder::FileKey({{1, 0}}, file));
    decoders.map.only() = bad;
    const uint64_t found = decoders.with.counts().coefficients_found;
    DecodeShareOf(decoders.with, file, PixelFormat::kRgb, RandomRectIn({4096, 4096}, random));
    used += decoders.with.counts().coefficients_found - found;
  }
  EXPECT_GT(used, 10u);
}

TEST(JpegCoefficientsTest, AreMadeWhereThereIsRoomAndTheyAreUsedAgain) {
  const std::string file = MakeJpegFile(PhotoRecipe());
  Keeping decoders;
  decoders.map.has_room = false;
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  EXPECT_EQ(decoders.map.size(), 0u);
  decoders.map.has_room = true;
  decoders.Use(1, JpegDecoder::Making::kNone);
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  EXPECT_EQ(decoders.map.size(), 0u);
}

TEST(JpegCoefficientsTest, BelongToOneRecordAndItsBytes) {
  const std::string file = MakeJpegFile(PhotoRecipe());
  Keeping decoders;
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  decoders.Use(2, JpegDecoder::Making::kAll);
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  JpegRecipe other = PhotoRecipe();
  other.seed = 2;
  decoders.ExpectEqual(MakeJpegFile(other), kMiddleShare, PixelFormat::kRgb);
  EXPECT_EQ(decoders.map.size(), 3u);
  EXPECT_EQ(decoders.with.counts().coefficients_found, 0u);
}

// A slot of a segment that is damaged may lead to another file's coefficients.
TEST(JpegCoefficientsTest, OfAnotherFileAreNotUsed) {
  JpegRecipe other = PhotoRecipe();
  other.seed = 2;
  Keeping decoders;
  decoders.ExpectEqual(MakeJpegFile(other), kMiddleShare, PixelFormat::kRgb);
  const std::string of_other = decoders.map.only();
  decoders.map.Clear();
  const std::string file = MakeJpegFile(PhotoRecipe());
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  decoders.map.only() = of_other;
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  EXPECT_EQ(decoders.with.counts().coefficients_found, 0u);
}

// Blocks as a file may have them: empty, of one colour, few and many values, wide ones.
TEST(JpegCoefficientsTest, BlocksSurviveInEveryTwin) {
  SampleRandom random(25, 0, 0, 0);
  constexpr int kBlocks = 50;
  constexpr size_t kNumbers = kBlocks * jpeg::kBlockCoefficients;
  for (int i = 0; i < 200; ++i) {
    alignas(64) int16_t blocks[kNumbers] = {};
    for (int block = 0; block < kBlocks; ++block) {
      int16_t* const at = blocks + block * jpeg::kBlockCoefficients;
      at[0] = static_cast<int16_t>(random.NextBelow(8191)) - 4095;
      const int values = static_cast<int>(random.NextBelow(3) * random.NextBelow(32));
      const int limit = random.NextBelow(8) == 0 ? 8191 : 127;
      for (int k = 0; k < values; ++k) {
        at[1 + random.NextBelow(63)] =
            static_cast<int16_t>(random.NextBelow(2 * limit + 1)) - limit;
      }
    }
    for (const Simd pack : {Simd::kScalar, Simd::kAvx2, Simd::kBest}) {
      alignas(64) int16_t spent[kNumbers];
      std::memcpy(spent, blocks, sizeof(spent));
      jpeg::RowPacker packer;
      packer.Begin(kBlocks);
      for (int block = 0; block < kBlocks; ++block) {
        packer.Add(spent + block * jpeg::kBlockCoefficients, pack);
      }
      for (const int16_t left : spent) ASSERT_EQ(left, 0);
      const size_t value_bytes = packer.value_bytes();
      std::string bytes;
      packer.Finish(bytes);
      ASSERT_EQ(bytes.size(), kBlocks * jpeg::PackedRow::kBytesPerBlock + value_bytes);
      bytes.append(jpeg::PackedRow::kReadBeyond, '\xff');
      const jpeg::PackedRow row = {bytes.data(), bytes.data() + kBlocks * sizeof(uint64_t),
                                   bytes.data() + kBlocks * jpeg::PackedRow::kBytesPerBlock,
                                   value_bytes};
      ASSERT_EQ(jpeg::ValueBytes(row, 0, kBlocks), value_bytes);
      for (const Simd expand : {Simd::kScalar, Simd::kAvx2, Simd::kBest}) {
        alignas(64) int16_t out[kNumbers];
        std::memset(out, 0x55, sizeof(out));
        uint8_t last[kBlocks];
        const int first = static_cast<int>(random.NextBelow(kBlocks));
        jpeg::ExpandBlocks(row, first, kBlocks - first,
                           row.values + jpeg::ValueBytes(row, 0, first), out, last, expand);
        ASSERT_EQ(std::memcmp(out, blocks + first * jpeg::kBlockCoefficients,
                              (kBlocks - first) * jpeg::kBlockCoefficients * sizeof(int16_t)),
                  0);
      }
    }
  }
}

}  // namespace
}  // namespace bulkhead

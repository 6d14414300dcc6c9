#include "server/image/jpeg/seek_entries.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/base/value_map.h"
#include "server/image/codecs/jpeg_decoder.h"
#include "tests/image/jpeg/jpeg_files.h"

namespace bulkhead {
namespace {

// A decoder that keeps seek entries, and one without.
struct Indexed {
  ValueMap map;
  JpegDecoder with{JpegDecoder::Way::kFastest};
  JpegDecoder without{JpegDecoder::Way::kFastest};

  Indexed() {
    with.SetStores({.seek = &map, .record = {{1, 0}}, .making = JpegDecoder::Making::kInPassing});
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

TEST(JpegSeekEntriesTest, ChangeNoPixelOfAnyKindOfFile) {
  SampleRandom random(11, 0, 0, 0);
  uint64_t found = 0;
  uint64_t made = 0;
  Indexed decoders;
  for (int i = 0; i < 600; ++i) {
    const JpegRecipe recipe = RandomRecipe(random, i % 5 == 0 ? 400 : 100);
    SCOPED_TRACE(absl::StrCat(i, ": ", recipe.height, " x ", recipe.width, " sampling ", recipe.h,
                              " ", recipe.v, " restart ", recipe.restart_interval));
    const std::string file = MakeJpegFile(recipe);
    if (file.empty()) continue;
    decoders.map.Clear();
    for (int part = 0; part < 6; ++part) {
      decoders.ExpectEqual(file, RandomRectIn({4096, 4096}, random),
                           static_cast<PixelFormat>(random.NextBelow(4)));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  found = decoders.with.counts().entries_found;
  made = decoders.with.counts().entries_made;
  EXPECT_GT(made, 500u);
  EXPECT_GT(found, 3 * made);
}

TEST(JpegSeekEntriesTest, ChangeNoVerdictOnDamagedFiles) {
  SampleRandom random(12, 0, 0, 0);
  Indexed decoders;
  for (int i = 0; i < 2000; ++i) {
    SCOPED_TRACE(i);
    std::string file = MakeJpegFile(RandomRecipe(random, 150));
    if (file.empty()) continue;
    file = DamageJpeg(std::move(file), random);
    decoders.map.Clear();
    for (int part = 0; part < 4; ++part) {
      decoders.ExpectEqual(file, RandomRectIn({4096, 4096}, random), PixelFormat::kRgb);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  EXPECT_GT(decoders.with.counts().entries_found, 500u);
}

TEST(JpegSeekEntriesTest, LeaveOutMostOfTheImage) {
  for (const int restart : {0, 7}) {
    SCOPED_TRACE(restart);
    const std::string file = MakeJpegFile(PhotoRecipe(restart));
    Indexed decoders;
    decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
    EXPECT_EQ(decoders.with.counts().mcus_read, decoders.with.counts().mcus) << "to the end";
    EXPECT_EQ(decoders.with.counts().entries_made, 1u);
    const uint64_t before = decoders.with.counts().mcus_read;
    decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
    const uint64_t whole = decoders.with.counts().mcus / 2;
    EXPECT_LT(decoders.with.counts().mcus_read - before, whole / 5);
    EXPECT_GT(decoders.without.counts().mcus_read, whole)
        << "above and beside the rectangle, twice";
  }
}

TEST(JpegSeekEntriesTest, TakeTwoPercentOfTheFile) {
  for (const auto& [h, v] : {std::pair(1, 1), {2, 1}, {2, 2}}) {
    JpegRecipe recipe = PhotoRecipe();
    recipe.h = h;
    recipe.v = v;
    const std::string file = MakeJpegFile(recipe);
    Indexed decoders;
    decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
    EXPECT_LT(decoders.map.only().size(), 0.02 * file.size());
    EXPECT_GT(decoders.map.only().size(), 0.005 * file.size());
  }
}

TEST(JpegSeekEntriesTest, AreNotMadeOfAFileThatIsDamagedBelow) {
  std::string file = MakeJpegFile(PhotoRecipe());
  // The last MCUs lose some bytes.
  file.erase(file.size() - 60, 40);
  Indexed decoders;
  for (int i = 0; i < 2; ++i) decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  // That it has none is known, so that nobody tries again.
  EXPECT_EQ(decoders.map.only(), jpeg::SeekEntries::None());
  EXPECT_EQ(decoders.with.counts().entries_made, 1u);
  EXPECT_EQ(decoders.with.counts().entries_found, 0u);
  decoders.ExpectEqual(file, kWholeShare, PixelFormat::kRgb);
}

TEST(JpegSeekEntriesTest, OfAnotherSizeAreNotUsed) {
  const std::string file = MakeJpegFile(PhotoRecipe());
  Indexed decoders;
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  const std::string good = decoders.map.only();
  for (const std::string& bad :
       {std::string(), good.substr(0, 3), good.substr(0, good.size() - 1), good + "x"}) {
    decoders.map.only() = bad;
    decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  }
  EXPECT_EQ(decoders.with.counts().entries_found, 0u);
}

// Whatever the entries say, nothing is read or written beyond its end (this is for sanitizers).
TEST(JpegSeekEntriesTest, MayBeAnyBytes) {
  SampleRandom random(13, 0, 0, 0);
  for (const int restart : {0, 5}) {
    const std::string file = MakeJpegFile(PhotoRecipe(restart));
    Indexed decoders;
    decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
    const std::string good = decoders.map.only();
    for (int i = 0; i < 300; ++i) {
      std::string bad = good;
      for (size_t at = jpeg::SeekEntries::kHeaderBytes; at < bad.size(); ++at) {
        if (random.NextBelow(4) == 0) bad[at] = static_cast<char>(random.NextBelow(256));
      }
      decoders.map.only() = bad;
      DecodeShareOf(decoders.with, file, PixelFormat::kRgb, RandomRectIn({4096, 4096}, random));
    }
  }
}

TEST(JpegSeekEntriesTest, AreMadeOfCropsOnlyAndWhereThereIsRoom) {
  const std::string file = MakeJpegFile(PhotoRecipe());
  Indexed decoders;
  decoders.ExpectEqual(file, kWholeShare, PixelFormat::kRgb);
  EXPECT_EQ(decoders.map.size(), 0u);
  decoders.map.has_room = false;
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  EXPECT_EQ(decoders.map.size(), 0u);
  decoders.map.has_room = true;
  decoders.with.SetStores({.seek = &decoders.map, .record = {{1, 0}}});
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  EXPECT_EQ(decoders.map.size(), 0u);
}

TEST(JpegSeekEntriesTest, BelongToOneRecordAndItsBytes) {
  const std::string file = MakeJpegFile(PhotoRecipe());
  Indexed decoders;
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  decoders.with.SetStores(
      {.seek = &decoders.map, .record = 2, .making = JpegDecoder::Making::kInPassing});
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  JpegRecipe other = PhotoRecipe();
  other.seed = 2;
  decoders.ExpectEqual(MakeJpegFile(other), kMiddleShare, PixelFormat::kRgb);
  EXPECT_EQ(decoders.map.size(), 3u);
  EXPECT_EQ(decoders.with.counts().entries_found, 0u);
}

}  // namespace
}  // namespace bulkhead

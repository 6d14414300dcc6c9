#include "server/image/jpeg/file_note.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/value_map.h"
#include "server/image/codecs/image_decoder.h"
#include "tests/image/jpeg/jpeg_files.h"

namespace bulkhead {
namespace {

// A decoder that reads files only if it has to, and one that knows nothing of them.
struct Noting {
  ValueMap map;
  JpegDecoder with{JpegDecoder::Way::kFastest};
  JpegDecoder without{JpegDecoder::Way::kFastest};

  explicit Noting(JpegDecoder::Making making = JpegDecoder::Making::kAll) { Use(making); }
  void Use(JpegDecoder::Making making) {
    with.SetStores({.coefficients = &map, .record = {{1, 0}}, .making = making});
  }

  void ExpectEqual(JpegOnDisk& file, const Rect& share, PixelFormat format) {
    const JpegOutcome one = DecodeShareOf(with, file, format, share);
    const JpegOutcome other = DecodeShareOf(without, *file.Get(), format, share);
    --file.reads;
    ASSERT_EQ(one.reason, other.reason);
    ASSERT_EQ(one.message, other.message);
    ASSERT_TRUE(one.pixels == other.pixels)
        << "part " << share.top << " " << share.left << " " << share.height << " " << share.width;
  }
};

TEST(JpegFileNoteTest, FilesAreReadOnceAndNoPixelAndNoVerdictChanges) {
  SampleRandom random(31, 0, 0, 0);
  Noting decoders;
  uint64_t kept = 0;
  for (int i = 0; i < 900; ++i) {
    JpegRecipe recipe = RandomRecipe(random, i % 5 == 0 ? 400 : 100);
    recipe.progressive = i % 3 == 1;
    std::string bytes = MakeJpegFile(recipe);
    if (bytes.empty()) continue;
    if (i % 3 == 2) bytes = DamageJpeg(std::move(bytes), random);
    SCOPED_TRACE(absl::StrCat(i, ": ", recipe.height, " x ", recipe.width));
    decoders.map.Clear();
    JpegOnDisk file(std::move(bytes));
    for (int part = 0; part < 5; ++part) {
      const Rect share = part == 3 ? kWholeShare : RandomRectIn({4096, 4096}, random);
      decoders.ExpectEqual(file, share, static_cast<PixelFormat>(random.NextBelow(4)));
      if (testing::Test::HasFatalFailure()) return;
    }
    kept += file.reads == 1 ? 1 : 0;
  }
  EXPECT_GT(kept, 500u);
  EXPECT_GE(decoders.with.counts().unread, 4 * kept);
}

TEST(JpegFileNoteTest, AFileThatChangedIsReadAgain) {
  Noting decoders;
  JpegRecipe recipe = PhotoRecipe();
  JpegOnDisk before(MakeJpegFile(recipe), /*state=*/1);
  recipe.seed = 2;
  JpegOnDisk after(MakeJpegFile(recipe), /*state=*/2);
  JpegOnDisk fresh(MakeJpegFile(recipe), /*state=*/0);
  for (int i = 0; i < 3; ++i) {
    decoders.ExpectEqual(before, kMiddleShare, PixelFormat::kRgb);
    decoders.ExpectEqual(after, kMiddleShare, PixelFormat::kRgb);
    decoders.ExpectEqual(fresh, kMiddleShare, PixelFormat::kRgb);
  }
  EXPECT_EQ(before.reads, 1);
  EXPECT_EQ(after.reads, 1);
  // Whether it has changed since then nothing tells.
  EXPECT_EQ(fresh.reads, 3);
}

TEST(JpegFileNoteTest, NoneIsMadeWhereNothingIsToBeKept) {
  Noting decoders(JpegDecoder::Making::kNone);
  JpegOnDisk file(MakeJpegFile(PhotoRecipe()));
  for (int i = 0; i < 2; ++i) decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  EXPECT_EQ(file.reads, 2);
  EXPECT_EQ(decoders.map.size(), 0u);
  // Nor of a file whose coefficients another stream has kept.
  JpegOnDisk fresh(std::string(*file.Get()), /*state=*/0);
  decoders.Use(JpegDecoder::Making::kAll);
  decoders.ExpectEqual(fresh, kMiddleShare, PixelFormat::kRgb);
  decoders.Use(JpegDecoder::Making::kNone);
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  EXPECT_EQ(decoders.map.size(), 1u);
  file.reads = 2;
  // A note that another stream has kept is used.
  decoders.Use(JpegDecoder::Making::kAll);
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  decoders.Use(JpegDecoder::Making::kNone);
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  EXPECT_EQ(file.reads, 3);
}

TEST(JpegFileNoteTest, BothWaysAreTriedInTurnsUntilTheirTimesAreKnown) {
  Noting decoders;
  JpegOnDisk file(MakeJpegFile(PhotoRecipe()));
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  decoders.Use(JpegDecoder::Making::kInPassing);
  const uint64_t found = decoders.with.counts().coefficients_found;
  for (int i = 0; i < 8; ++i) decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  EXPECT_EQ(file.reads, 5);
  EXPECT_EQ(decoders.with.counts().coefficients_found - found, 4u);
  EXPECT_EQ(decoders.with.counts().coefficients_made, 1u);
}

TEST(JpegFileNoteTest, LimitsHoldForFilesThatAreNotRead) {
  Noting decoders;
  JpegOnDisk file(MakeJpegFile(PhotoRecipe()));
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  EXPECT_TRUE(decoders.with.OpenUnread(file, uint64_t{1} << 30).has_value());
  EXPECT_FALSE(decoders.with.OpenUnread(file, 100).has_value());
  const auto opened = decoders.with.Open(*file.Get(), 100);
  EXPECT_EQ(GetErrorInfo(opened.status())->reason, reason::kImageTooLarge);
}

TEST(JpegFileNoteTest, WhereCoefficientsAreGoneTheFileIsRead) {
  Noting decoders;
  JpegOnDisk file(MakeJpegFile(PhotoRecipe()));
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  std::string note;
  const StoreKey key = *file.state();
  ASSERT_TRUE(decoders.map.Find(key, note));
  decoders.map.Clear();
  decoders.map.Add(key, note);
  decoders.Use(JpegDecoder::Making::kNone);
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  EXPECT_EQ(file.reads, 2);
}

// As a dishonest writer makes it: nothing is read or written beyond its end, and no rectangle of
// one image is taken from another (this is for sanitizers, too).
TEST(JpegFileNoteTest, MayBeAnyBytes) {
  SampleRandom random(32, 0, 0, 0);
  Noting decoders;
  JpegOnDisk file(MakeJpegFile(PhotoRecipe()));
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  const StoreKey key = *file.state();
  std::string good;
  ASSERT_TRUE(decoders.map.Find(key, good));
  decoders.Use(JpegDecoder::Making::kNone);
  std::map<std::string, int> outcomes;
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    if (i % 4 == 0) bad.resize(random.NextBelow(bad.size()));
    for (uint64_t n = random.NextBelow(4) + (i % 4 == 0 ? 0 : 1); n > 0 && !bad.empty(); --n) {
      bad[random.NextBelow(bad.size())] = static_cast<char>(random.NextBelow(256));
    }
    decoders.map.Add(key, bad);
    const JpegOutcome outcome =
        DecodeShareOf(decoders.with, file, PixelFormat::kRgb, RandomRectIn({4096, 4096}, random));
    ++outcomes[outcome.reason];
  }
  EXPECT_GT(outcomes[""], 1000);
  EXPECT_GT(outcomes[std::string(reason::kInternal)], 10) << "images of another size";
  EXPECT_EQ(outcomes.size(), 2u);
}

TEST(JpegFileNoteTest, AnotherImageIsNotNotedForAFileOfAnotherFormat) {
  ImageDecoder decoder;
  ValueMap map;
  decoder.SetStores({.coefficients = &map, .making = JpegDecoder::Making::kAll});
  const std::string gray = "P5 2 1 255\n" + std::string("\x01\x02", 2);
  JpegOnDisk other(gray);
  ASSERT_TRUE(decoder.Open(other, uint64_t{1} << 30).ok());
  // Of a tar, for instance.
  const std::string photo = MakeJpegFile(PhotoRecipe());
  const auto size = decoder.Open(photo, uint64_t{1} << 30);
  ASSERT_TRUE(size.ok()) << size.status();
  Image image;
  ASSERT_TRUE(decoder.Decode(PixelFormat::kRgb, WholeImage(*size), image).ok());
  EXPECT_FALSE(map.Has(*other.state()));
  const auto again = decoder.Open(other, uint64_t{1} << 30);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->width, 2);
}

TEST(JpegFileNoteTest, WhatIsNotedOnceIsNotNotedAgain) {
  Noting decoders;
  JpegOnDisk file(MakeJpegFile(PhotoRecipe()));
  decoders.ExpectEqual(file, kMiddleShare, PixelFormat::kRgb);
  const uint64_t bytes = decoders.map.added_bytes();
  for (int i = 0; i < 5; ++i) {
    // As another source of the same bytes, whose note was not looked at.
    ASSERT_TRUE(decoders.with.Open(*file.Get(), uint64_t{1} << 30, {}, &file).ok());
    Image image;
    ASSERT_TRUE(decoders.with.Decode(PixelFormat::kRgb, {0, 0, 8, 8}, image).ok());
  }
  EXPECT_EQ(decoders.map.added_bytes(), bytes);
}

TEST(JpegFileNoteTest, KeepsWhatDecodersInterpretAndTheOrientation) {
  std::string file = MakeJpegFile(PhotoRecipe());
  // A directory of one entry: orientation 6.
  const std::string exif("Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0",
                         32);
  const std::string comment(5000, 'c');
  const auto segment = [](char marker, const std::string& data) {
    const size_t length = data.size() + 2;
    return absl::StrCat("\xFF", std::string(1, marker),
                        std::string(1, static_cast<char>(length >> 8)),
                        std::string(1, static_cast<char>(length)), data);
  };
  file.insert(2, segment('\xE1', exif) + segment('\xFE', comment));
  std::string bytes;
  jpeg::FileNote::Write({{5, 6}}, 6, file, bytes);
  jpeg::FileNote note;
  ASSERT_TRUE(note.Parse(bytes));
  EXPECT_EQ(note.coefficients, (StoreKey{{5, 6}}));
  EXPECT_EQ(note.orientation, 6);
  EXPECT_LT(note.header.size(), 1000u);

  ImageDecoder decoder;
  ValueMap map;
  decoder.SetStores({.coefficients = &map, .making = JpegDecoder::Making::kAll});
  JpegOnDisk on_disk(file);
  for (int i = 0; i < 3; ++i) {
    const auto size = decoder.Open(on_disk, uint64_t{1} << 30);
    ASSERT_TRUE(size.ok()) << size.status();
    EXPECT_EQ(decoder.Orientation(), 6);
    Image image;
    ASSERT_TRUE(decoder.Decode(PixelFormat::kRgb, WholeImage(*size), image).ok());
  }
  EXPECT_EQ(on_disk.reads, 1);
}

}  // namespace
}  // namespace bulkhead

#include "tools/pack/image_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/error.h"
#include "server/image/codecs/image_decoder.h"
#include "server/spec/stage_signature.h"
#include "tests/tools/pack/made_jpeg.h"

namespace bulkhead::tools {
namespace {

using Side = Recoding::Side;

RecodedImage Recode(const std::string& file, const Recoding& recoding) {
  return NewLocalImageWork()->Recode(file, recoding).value();
}

ImageSize SizeOf(const std::string& file) { return NewLocalImageWork()->Look(file)->size; }

// The red of a pixel.
int Red(const std::string& file, int y, int x) {
  ImageDecoder decoder;
  const ImageSize size = decoder.Open(file, kDefaultMaxPixels).value();
  Image buffer;
  return decoder.Decode(PixelFormat::kRgb, WholeImage(size), buffer)->row(y)[3 * x];
}

TEST(ImageWorkTest, LooksAtSizeAndOrientation) {
  const auto look = NewLocalImageWork()->Look(MadeTurnedJpeg({30, 50}, 6));
  ASSERT_TRUE(look.ok()) << look.status();
  EXPECT_EQ(look->size, (ImageSize{30, 50}));
  EXPECT_EQ(look->orientation, 6);
}

TEST(ImageWorkTest, TheLongerSideIsMadeSmaller) {
  const std::string file = MadeJpeg({60, 100}, {20, 40, 20, 40});
  const RecodedImage image = Recode(file, {.side = Side::kLonger, .pixels = 50});
  EXPECT_FALSE(image.is_kept);
  EXPECT_EQ(SizeOf(image.file), (ImageSize{30, 50}));
  EXPECT_EQ(image.scale_x, 0.5);
  EXPECT_EQ(image.scale_y, 0.5);
  EXPECT_GT(Red(image.file, 11, 21), 180);
  EXPECT_GT(Red(image.file, 18, 38), 180);
  EXPECT_LT(Red(image.file, 8, 18), 60);
  EXPECT_LT(Red(image.file, 22, 42), 60);
}

TEST(ImageWorkTest, TheShorterSideIsMadeSmaller) {
  const RecodedImage image = Recode(MadeJpeg({40, 90}), {.side = Side::kShorter, .pixels = 20});
  EXPECT_EQ(SizeOf(image.file), (ImageSize{20, 45}));
}

TEST(ImageWorkTest, SidesAreRoundedAndEachHasItsScale) {
  const RecodedImage image = Recode(MadeJpeg({33, 100}), {.side = Side::kLonger, .pixels = 50});
  EXPECT_EQ(SizeOf(image.file), (ImageSize{17, 50}));
  EXPECT_EQ(image.scale_x, 0.5);
  EXPECT_EQ(image.scale_y, 17.0 / 33);
}

TEST(ImageWorkTest, WhatIsSmallEnoughKeepsItsBytesUnlessAQualityIsAsked) {
  const std::string file = MadeJpeg({60, 100});
  EXPECT_TRUE(Recode(file, {.side = Side::kLonger, .pixels = 100}).is_kept);
  EXPECT_TRUE(Recode(file, {.side = Side::kShorter, .pixels = 60}).is_kept);
  const RecodedImage poor = Recode(file, {.side = Side::kLonger, .pixels = 500, .quality = 10});
  EXPECT_FALSE(poor.is_kept);
  EXPECT_EQ(SizeOf(poor.file), (ImageSize{60, 100}));
  EXPECT_EQ(poor.scale_x, 1);
  const RecodedImage good = Recode(file, {.quality = 100});
  EXPECT_GT(good.file.size(), poor.file.size());
}

TEST(ImageWorkTest, UprightTurnsThePixelsOfWhatIsEncodedAgain) {
  // Orientation 6: the stored left side is the upper one, and the stored bottom the left one.
  const std::string file = MadeTurnedJpeg({40, 80}, 6, {24, 0, 16, 16});
  const RecodedImage turned = Recode(file, {.side = Side::kLonger, .pixels = 40, .upright = true});
  EXPECT_EQ(SizeOf(turned.file), (ImageSize{40, 20}));
  EXPECT_EQ(NewLocalImageWork()->Look(turned.file)->orientation, 1);
  EXPECT_GT(Red(turned.file, 3, 3), 180);
  EXPECT_LT(Red(turned.file, 3, 15), 60);
  EXPECT_EQ(SizeOf(Recode(file, {.side = Side::kLonger, .pixels = 40}).file), (ImageSize{20, 40}));
}

TEST(ImageWorkTest, ADamagedImageIsASampleError) {
  const std::string file = MadeJpeg({60, 100});
  EXPECT_TRUE(IsSampleError(NewLocalImageWork()->Look("no image at all").status()));
  EXPECT_TRUE(IsSampleError(
      NewLocalImageWork()->Recode(file.substr(0, file.size() / 2), {.quality = 90}).status()));
}

}  // namespace
}  // namespace bulkhead::tools

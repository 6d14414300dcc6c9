#include "server/image/jpeg/sequential_decoder.h"

#include <gtest/gtest.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "server/base/value_map.h"
#include "server/image/codecs/jpeg_decoder.h"
#include "tests/image/jpeg/jpeg_files.h"
#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

// Both ways of one decoder's door, and the faster one by seek entries that it makes.
struct Pair {
  JpegDecoder ours{JpegDecoder::Way::kFastest};
  JpegDecoder seeking{JpegDecoder::Way::kFastest};
  ValueMap entries;
  JpegDecoder libjpeg{JpegDecoder::Way::kLibjpeg};

  Pair() { seeking.SetStores({.seek = &entries, .making = JpegDecoder::Making::kInPassing}); }

  // The reason, pixels and words of an error are the same, whole and in `parts` parts.
  void ExpectEqual(const std::string& file, int parts, SampleRandom& random) {
    entries.Clear();
    for (int i = 0; i <= parts; ++i) {
      const Rect share = i == 0 ? kWholeShare : RandomRectIn({4096, 4096}, random);
      const auto format = static_cast<PixelFormat>(random.NextBelow(4));
      const JpegOutcome one = DecodeShareOf(ours, file, format, share);
      const JpegOutcome other = DecodeShareOf(libjpeg, file, format, share);
      ASSERT_EQ(one.reason, other.reason);
      ASSERT_EQ(one.message, other.message);
      ASSERT_TRUE(one.pixels == other.pixels)
          << "part " << share.top << " " << share.left << " " << share.height << " " << share.width
          << " of 4096, format " << static_cast<int>(format);
      ASSERT_TRUE(DecodeShareOf(seeking, file, format, share) == other) << "by seek entries";
    }
  }

  uint64_t count(jpeg::Fallback reason) const {
    return ours.counts().files[static_cast<size_t>(reason)];
  }
};

std::string Describe(const JpegRecipe& recipe) {
  return absl::StrCat(recipe.height, " x ", recipe.width, recipe.gray ? " gray" : "", " sampling ",
                      recipe.h, " ", recipe.v, " quality ", recipe.quality, " restart ",
                      recipe.restart_interval, " optimize ", recipe.optimize, " content ",
                      static_cast<int>(recipe.content), " seed ", recipe.seed);
}

TEST(JpegSequentialDecoderTest, HasThePixelsOfLibjpegForEveryKindOfFile) {
  SampleRandom random(1, 0, 0, 0);
  Pair pair;
  int files = 0;
  for (int i = 0; i < 1500; ++i) {
    const JpegRecipe recipe = RandomRecipe(random, i % 10 == 0 ? 300 : 70);
    SCOPED_TRACE(Describe(recipe));
    const std::string file = MakeJpegFile(recipe);
    if (file.empty()) continue;
    ++files;
    pair.ExpectEqual(file, 4, random);
    if (testing::Test::HasFatalFailure()) return;
  }
  // And these were not all decoded by libjpeg.
  EXPECT_GT(pair.count(jpeg::Fallback::kNone), 4u * files);
  EXPECT_EQ(pair.count(jpeg::Fallback::kData), 0u);
  EXPECT_EQ(pair.count(jpeg::Fallback::kCoefficient), 0u);
}

TEST(JpegSequentialDecoderTest, HasThePixelsOfLibjpegForEverySmallSize) {
  SampleRandom random(2, 0, 0, 0);
  Pair pair;
  for (const auto& [h, v] : {std::pair(1, 1), {2, 1}, {1, 2}, {2, 2}, {4, 1}}) {
    for (int height = 1; height <= 34; ++height) {
      for (int width = 1; width <= 34; ++width) {
        JpegRecipe recipe;
        recipe.height = height;
        recipe.width = width;
        recipe.h = h;
        recipe.v = v;
        recipe.content = JpegRecipe::Content::kNoise;
        SCOPED_TRACE(Describe(recipe));
        pair.ExpectEqual(MakeJpegFile(recipe), 1, random);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(pair.count(jpeg::Fallback::kNone), 10000u);
}

TEST(JpegSequentialDecoderTest, HasTheVerdictOfLibjpegOnDamagedFiles) {
  SampleRandom random(3, 0, 0, 0);
  Pair pair;
  for (int i = 0; i < 4000; ++i) {
    const JpegRecipe recipe = RandomRecipe(random, 120);
    SCOPED_TRACE(absl::StrCat(i, ": ", Describe(recipe)));
    std::string file = MakeJpegFile(recipe);
    if (file.empty()) continue;
    pair.ExpectEqual(DamageJpeg(std::move(file), random), 2, random);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(pair.count(jpeg::Fallback::kNone), 500u);
  EXPECT_GT(pair.count(jpeg::Fallback::kData), 500u);
  EXPECT_GT(pair.count(jpeg::Fallback::kCoefficient), 100u);
}

TEST(JpegSequentialDecoderTest, HasTheVerdictOfLibjpegForEveryFlippedBitAndEveryCut) {
  SampleRandom random(4, 0, 0, 0);
  Pair pair;
  JpegRecipe recipe;
  recipe.height = 24;
  recipe.width = 40;
  recipe.h = recipe.v = 2;
  recipe.restart_interval = 2;
  recipe.quality = 60;
  const std::string file = MakeJpegFile(recipe);
  for (size_t bit = file.find("\xFF\xDA") * 8; bit < file.size() * 8; ++bit) {
    SCOPED_TRACE(bit);
    std::string damaged = file;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    pair.ExpectEqual(damaged, 1, random);
    // Complete, as far as its markers tell, but with less data.
    if (bit % 8 == 0) pair.ExpectEqual(file.substr(0, bit / 8) + "\xFF\xD9", 1, random);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(JpegSequentialDecoderTest, WildQuantizersAreLeftToLibjpeg) {
  SampleRandom random(5, 0, 0, 0);
  Pair pair;
  for (int i = 0; i < 300; ++i) {
    JpegRecipe recipe = RandomRecipe(random, 40);
    recipe.content = JpegRecipe::Content::kNoise;
    std::string file = MakeJpegFile(recipe);
    if (file.empty()) continue;
    const size_t table = file.find("\xFF\xDB") + 5;
    for (size_t k = 0; k < 64; ++k) file[table + k] = static_cast<char>(random.NextBelow(256));
    SCOPED_TRACE(Describe(recipe));
    pair.ExpectEqual(file, 1, random);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(pair.count(jpeg::Fallback::kCoefficient), 50u);
  EXPECT_GT(pair.count(jpeg::Fallback::kNone), 50u);
}

TEST(JpegSequentialDecoderTest, ScalarTwinHasTheSamePixels) {
  SampleRandom random(6, 0, 0, 0);
  const auto decoder = std::make_unique<jpeg::SequentialDecoder>();
  int compared = 0;
  for (int i = 0; i < 300; ++i) {
    const JpegRecipe recipe = RandomRecipe(random, 90);
    const std::string file = MakeJpegFile(recipe);
    if (file.empty() || decoder->Open(file) != jpeg::Fallback::kNone) continue;
    const Rect rect = RandomRectIn(decoder->header().size, random);
    const auto format = static_cast<PixelFormat>(random.NextBelow(4));
    std::array<Image, 3> images;
    for (const Simd simd : {Simd::kScalar, Simd::kAvx2, Simd::kBest}) {
      const MutableImageView out = images[static_cast<size_t>(simd)].Reshape(
          {rect.height, rect.width}, ChannelCount(format));
      ASSERT_EQ(decoder->Decode(format, rect, out, simd), jpeg::Fallback::kNone);
    }
    ASSERT_TRUE(PixelsOf(images[0].view()) == PixelsOf(images[1].view())) << Describe(recipe);
    ASSERT_TRUE(PixelsOf(images[0].view()) == PixelsOf(images[2].view())) << Describe(recipe);
    ++compared;
  }
  EXPECT_GT(compared, 200);
}

TEST(JpegSequentialDecoderTest, HasThePixelsOfLibjpegForPhotos) {
  const std::vector<std::string> photos = ReadPhotos(4);
  if (photos.empty()) GTEST_SKIP() << kNoPhotos;
  SampleRandom random(7, 0, 0, 0);
  Pair pair;
  for (size_t i = 0; i < photos.size(); ++i) {
    SCOPED_TRACE(i);
    pair.ExpectEqual(photos[i], 3, random);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(pair.count(jpeg::Fallback::kNone), photos.size());
}

// libjpeg keeps tables from file to file: one that lacks them must not be decoded by others'.
TEST(JpegSequentialDecoderTest, VerdictDoesNotDependOnTheFileBefore) {
  const std::string file = MakeJpegFile({});
  std::string bare = file;
  const size_t table = bare.find("\xFF\xDB");
  bare[table + 1] = '\xFE';  // a comment
  for (const auto way : {JpegDecoder::Way::kFastest, JpegDecoder::Way::kLibjpeg}) {
    JpegDecoder decoder(way);
    EXPECT_EQ(DecodeShareOf(decoder, bare, PixelFormat::kRgb, kWholeShare).reason, "CORRUPT_IMAGE");
    EXPECT_EQ(DecodeShareOf(decoder, file, PixelFormat::kRgb, kWholeShare).reason, "");
    EXPECT_EQ(DecodeShareOf(decoder, bare, PixelFormat::kRgb, kWholeShare).reason, "CORRUPT_IMAGE");
  }
}

}  // namespace
}  // namespace bulkhead

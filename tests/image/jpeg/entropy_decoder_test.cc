#include "server/image/jpeg/entropy_decoder.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/image/jpeg/jpeg_files.h"

namespace bulkhead::jpeg {
namespace {

struct Decoding {
  std::string file;
  Header header;
  EntropyDecoder decoder;
  int blocks = 0;  // in an MCU
  int mcus = 0;

  bool Begin(const JpegRecipe& recipe) {
    file = MakeJpegFile(recipe);
    if (ParseHeader(file, header) != Fallback::kNone) return false;
    if (decoder.Begin(file, header) != Fallback::kNone) return false;
    blocks = 0;
    for (int c = 0; c < header.component_count; ++c) {
      blocks += header.components[c].h * header.components[c].v;
    }
    mcus = header.mcus_across() * header.mcus_down();
    return true;
  }

  // The coefficients of the next `count` MCUs; none when the decoder stops.
  std::vector<int16_t> Next(int count) {
    const ptrdiff_t step = static_cast<ptrdiff_t>(blocks) * kBlockCoefficients;
    std::vector<int16_t> coefficients(step * count);
    std::vector<uint8_t> last(static_cast<size_t>(blocks) * count);
    McuTarget target;
    for (int b = 0; b < blocks; ++b) {
      target[b] = {coefficients.data() + static_cast<ptrdiff_t>(b) * kBlockCoefficients, step,
                   last.data() + b, blocks};
    }
    if (decoder.Decode(count, target) != Fallback::kNone) return {};
    for (size_t block = 0; block < last.size(); ++block) {
      for (int k = last[block] + 1; k < kBlockCoefficients; ++k) {
        EXPECT_EQ(coefficients[block * kBlockCoefficients + kNaturalOrder[k]], 0);
      }
    }
    return coefficients;
  }
};

JpegRecipe Recipe(int h, int v, int restart, JpegRecipe::Content content) {
  JpegRecipe recipe;
  recipe.height = 70;
  recipe.width = 90;
  recipe.h = h;
  recipe.v = v;
  recipe.restart_interval = restart;
  recipe.content = content;
  recipe.quality = 97;
  recipe.optimize = restart == 0;
  return recipe;
}

template <typename Body>
void ForEveryKind(const Body& body) {
  for (const auto content : {JpegRecipe::Content::kSmooth, JpegRecipe::Content::kNoise}) {
    for (const int restart : {0, 1, 5}) {
      for (const auto& [h, v] : {std::pair(1, 1), {2, 1}, {2, 2}, {4, 1}}) {
        SCOPED_TRACE(absl::StrCat(h, " ", v, " restart ", restart));
        body(Recipe(h, v, restart, content));
      }
    }
  }
}

TEST(JpegEntropyDecoderTest, StartsAtEveryEntryPointThatItReported) {
  ForEveryKind([](const JpegRecipe& recipe) {
    const auto decoding = std::make_unique<Decoding>();
    ASSERT_TRUE(decoding->Begin(recipe));
    const int step = decoding->mcus < 30 ? 1 : 3;
    std::vector<EntryPoint> points;
    std::vector<std::vector<int16_t>> coefficients;
    for (int mcu = 0; mcu < decoding->mcus; mcu += step) {
      points.push_back(decoding->decoder.Entry());
      ASSERT_EQ(points.back().mcu, static_cast<uint32_t>(mcu));
      coefficients.push_back(decoding->Next(std::min(step, decoding->mcus - mcu)));
      ASSERT_FALSE(coefficients.back().empty());
    }
    for (size_t i = points.size(); i-- > 0;) {
      decoding->decoder.StartAt(points[i]);
      EXPECT_EQ(decoding->decoder.Entry(), points[i]);
      const int here = static_cast<int>(i) * step;
      ASSERT_EQ(decoding->Next(std::min(step, decoding->mcus - here)), coefficients[i]) << i;
      if (i + 1 < points.size()) {
        ASSERT_EQ(decoding->Next(std::min(step, decoding->mcus - here - step)), coefficients[i + 1])
            << i;
      }
    }
  });
}

TEST(JpegEntropyDecoderTest, PassingOverLeadsWhereDecodingLeads) {
  ForEveryKind([](const JpegRecipe& recipe) {
    const auto decoded = std::make_unique<Decoding>();
    const auto skipped = std::make_unique<Decoding>();
    ASSERT_TRUE(decoded->Begin(recipe));
    ASSERT_TRUE(skipped->Begin(recipe));
    SampleRandom random(3, 0, 0, 0);
    for (int mcu = 0; mcu < decoded->mcus;) {
      const int count = std::min(1 + static_cast<int>(random.NextBelow(9)), decoded->mcus - mcu);
      ASSERT_FALSE(decoded->Next(count).empty());
      ASSERT_EQ(skipped->decoder.Skip(count), Fallback::kNone);
      ASSERT_EQ(decoded->decoder.Entry(), skipped->decoder.Entry());
      mcu += count;
    }
    // Behind the last MCU there is nothing more.
    EXPECT_EQ(skipped->decoder.Skip(1), Fallback::kData);
    EXPECT_EQ(skipped->decoder.Skip(1), Fallback::kData);
  });
}

// Under a sanitizer: nothing outside the file is read.
TEST(JpegEntropyDecoderTest, PointsOfAnotherFileAreSafe) {
  const auto decoding = std::make_unique<Decoding>();
  ASSERT_TRUE(decoding->Begin(Recipe(2, 2, 5, JpegRecipe::Content::kNoise)));
  SampleRandom random(8, 0, 0, 0);
  int stopped = 0;
  for (int i = 0; i < 500; ++i) {
    EntryPoint point;
    point.mcu = random.Next32();
    point.bit_offset =
        i % 10 == 0 ? random.Next64() : random.NextBelow(decoding->file.size() * 8 + 100);
    point.dc.fill(static_cast<int16_t>(random.Next32()));
    decoding->decoder.StartAt(point);
    if (decoding->decoder.Skip(200) != Fallback::kNone) ++stopped;
  }
  EXPECT_GT(stopped, 400);
}

TEST(JpegEntropyDecoderTest, StopsAtRestartMarkersThatAreNotTheNext) {
  const auto decoding = std::make_unique<Decoding>();
  ASSERT_TRUE(decoding->Begin(Recipe(1, 1, 5, JpegRecipe::Content::kSmooth)));
  const size_t marker = decoding->file.find("\xFF\xD1");
  ASSERT_NE(marker, std::string::npos);
  decoding->file[marker + 1] = '\xD2';
  ASSERT_EQ(decoding->decoder.Begin(decoding->file, decoding->header), Fallback::kNone);
  EXPECT_EQ(decoding->decoder.Skip(10), Fallback::kNone);
  EXPECT_EQ(decoding->decoder.Skip(1), Fallback::kData);
  // A byte that nobody needs before the marker.
  decoding->file[marker + 1] = '\xD1';
  decoding->file.insert(marker, 1, 'x');
  ASSERT_EQ(decoding->decoder.Begin(decoding->file, decoding->header), Fallback::kNone);
  EXPECT_EQ(decoding->decoder.Skip(10), Fallback::kNone);
  EXPECT_EQ(decoding->decoder.Skip(1), Fallback::kData);
}

}  // namespace
}  // namespace bulkhead::jpeg

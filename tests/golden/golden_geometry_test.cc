// What Pillow and TensorFlow made of a few images (make_geometry_golden.py), bit for bit.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/image/codecs/image_decoder.h"
#include "server/image/geometry/orientation.h"
#include "server/image/resize/legacy_resize.h"
#include "server/image/resize/resample.h"
#include "tests/image/test_images.h"
#include "tests/pipeline/pipeline_fixture.h"

namespace bulkhead::golden_geometry_test {
namespace {

struct Golden {
  std::string name;
  ImageSize size;  // of images
  int channels = 0;
  std::string bytes;

  ImageView view() const {
    return {reinterpret_cast<const uint8_t*>(bytes.data()), size.height, size.width, channels,
            static_cast<size_t>(size.width) * channels};
  }
};

// All arrays, in their order.
std::vector<Golden> ReadGoldens() {
  std::ifstream file(
      absl::StrCat(std::getenv("BULKHEAD_SOURCE_DIR"), "/tests/golden/data/geometry.golden"),
      std::ios::binary);
  std::vector<Golden> goldens;
  std::string line;
  std::getline(file, line);  // what wrote it
  while (std::getline(file, line)) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    Golden golden;
    golden.name =
        line.substr(0, line.size() - words.back().size() - words[words.size() - 2].size() - 2);
    std::vector<int> extents;
    size_t size_bytes = 1;
    for (const absl::string_view extent : absl::StrSplit(words.back(), 'x')) {
      EXPECT_TRUE(absl::SimpleAtoi(extent, &extents.emplace_back())) << line;
      size_bytes *= extents.back();
    }
    if (extents.size() == 3) {
      golden.size = {extents[0], extents[1]};
      golden.channels = extents[2];
    }
    golden.bytes.resize(size_bytes);
    file.read(golden.bytes.data(), static_cast<std::streamsize>(size_bytes));
    goldens.push_back(std::move(golden));
  }
  return goldens;
}

class GoldenGeometryTest : public ::testing::Test {
 protected:
  // The array called `name`.
  const Golden& Get(const std::string& name) const {
    for (const Golden& golden : goldens_) {
      if (golden.name == name) return golden;
    }
    ADD_FAILURE() << "no array " << name;
    return goldens_.front();
  }

  const std::vector<Golden> goldens_ = ReadGoldens();
};

// "rgb" of "pillow rgb linear".
std::string Word(const std::string& name, size_t i) {
  return std::vector<std::string>(absl::StrSplit(name, ' '))[i];
}

TEST_F(GoldenGeometryTest, AntialiasedResizesArePillows) {
  ResampleScratch scratch;
  int compared = 0;
  for (const Golden& golden : goldens_) {
    const bool linear = absl::EndsWith(golden.name, " linear");
    if (!absl::StartsWith(golden.name, "pillow ") ||
        !(linear || absl::EndsWith(golden.name, " cubic"))) {
      continue;
    }
    ++compared;
    const Golden& input = Get(Word(golden.name, 1));
    Image made;
    ResampleImage(input.view(), linear ? ResampleFilter::kLinear : ResampleFilter::kCubic,
                  made.Reshape(golden.size, golden.channels), scratch);
    EXPECT_TRUE(PixelsOf(made.view()) == golden.bytes)
        << golden.name << " " << golden.size.height << " x " << golden.size.width;
  }
  EXPECT_EQ(compared, 36);
}

// The largest rectangle of the picture's own aspect ratio is the whole picture.
TEST_F(GoldenGeometryTest, AntialiasedRandomResizedCropsArePillows) {
  const Golden& input = Get("rgb");
  const FakeRecord record = MakeRecord(EncodePng(input.view()).value());
  int compared = 0;
  for (const Golden& golden : goldens_) {
    const bool linear = golden.name == "pillow rgb linear";
    if (!linear && golden.name != "pillow rgb cubic") continue;
    ++compared;
    PipelineUnderTest pipeline(
        MakeSpec(absl::StrFormat("stages { decode_image {} } stages { random_resized_crop { "
                                 "size: [%d, %d] scale: [1, 1] ratio: [%.17g, %.17g] "
                                 "antialias: true interpolation: %s } }",
                                 golden.size.height, golden.size.width, 53.0 / 37, 53.0 / 37,
                                 linear ? "INTERPOLATION_LINEAR" : "INTERPOLATION_CUBIC")),
        {record});
    const Produced produced = pipeline.Produce(0, {1, 2, 3});
    ASSERT_TRUE(produced.status.ok()) << produced.status;
    EXPECT_TRUE(pipeline.Output(produced, "image") == golden.bytes)
        << golden.name << " " << golden.size.height << " x " << golden.size.width;
  }
  EXPECT_EQ(compared, 12);
}

TEST_F(GoldenGeometryTest, OldCentersAreTensorFlow1s) {
  ScratchBuffer scratch;
  int compared = 0;
  for (const Golden& golden : goldens_) {
    if (!absl::StartsWith(golden.name, "tf1 ")) continue;
    ++compared;
    const Golden& input = Get(Word(golden.name, 1));
    const LegacyCenters centers =
        Word(golden.name, 3) == "aligned" ? LegacyCenters::kAligned : LegacyCenters::kCorner;
    Image made;
    const MutableImageView out = made.Reshape(golden.size, golden.channels);
    const bool nearest = Word(golden.name, 2) == "nearest";
    (nearest ? LegacyResizeNearest : LegacyResizeLinear)(input.view(), centers, out, scratch);
    EXPECT_TRUE(PixelsOf(made.view()) == golden.bytes)
        << golden.name << " " << golden.size.height << " x " << golden.size.width;
  }
  EXPECT_EQ(compared, 48);
}

// The whole image by our decoder, turned as its file says; its size in `size`.
std::string Decoded(const std::string& file, PixelFormat format, const DecodeOptions& options,
                    ImageSize& size) {
  ImageDecoder decoder;
  const auto stored = decoder.Open(file, 1'000'000, options);
  EXPECT_TRUE(stored.ok()) << stored.status();
  if (!stored.ok()) return "";
  Image image;
  const auto pixels = decoder.Decode(format, WholeImage(*stored), image);
  EXPECT_TRUE(pixels.ok()) << pixels.status();
  if (!pixels.ok()) return "";
  size = UprightSize(*stored, decoder.Orientation());
  Image upright;
  CopyUpright(*pixels, decoder.Orientation(), upright.Reshape(size, pixels->channels));
  return PixelsOf(upright.view());
}

TEST_F(GoldenGeometryTest, CmykIsConvertedAsPillowDoes) {
  for (const std::string name : {"cmyk", "ycck"}) {
    const std::string& file = Get("file " + name).bytes;
    const Golden& rgb = Get("pillow rgb of " + name);
    ImageSize size;
    EXPECT_TRUE(Decoded(file, PixelFormat::kRgb, {}, size) == rgb.bytes) << name;
    EXPECT_EQ(size, rgb.size);
    const Golden& gray = Get("pillow gray of " + name);
    EXPECT_TRUE(Decoded(file, PixelFormat::kGray, {}, size) == gray.bytes) << name;
  }
}

TEST_F(GoldenGeometryTest, ExifOrientationsAreThoseOfPillow) {
  int compared = 0;
  for (const Golden& golden : goldens_) {
    absl::string_view name = golden.name;
    if (!absl::ConsumePrefix(&name, "pillow upright ")) continue;
    ++compared;
    ImageSize size;
    EXPECT_TRUE(Decoded(Get(absl::StrCat("file ", name)).bytes, PixelFormat::kRgb, {}, size) ==
                golden.bytes)
        << name;
    EXPECT_EQ(size, golden.size) << name;
  }
  EXPECT_EQ(compared, 14);
}

TEST_F(GoldenGeometryTest, JpegOptionsAreTensorFlows) {
  DecodeOptions plain;
  plain.fancy_upsampling = false;
  DecodeOptions ifast;
  ifast.dct = DctMethod::kIfast;
  std::vector<std::pair<std::string, DecodeOptions>> ways = {{"plain", plain}, {"ifast", ifast}};
  for (const int scale : {2, 4, 8}) {
    DecodeOptions scaled;
    scaled.scale = scale;
    ways.emplace_back(absl::StrCat("scale ", scale), scaled);
  }
  const std::string& file = Get("file photo").bytes;
  ImageSize size;
  const std::string ours = Decoded(file, PixelFormat::kRgb, {}, size);
  for (const auto& [name, options] : ways) {
    const Golden& golden = Get("tf " + name);
    EXPECT_FALSE(golden.bytes == ours) << name;  // it is another way
    EXPECT_TRUE(Decoded(file, PixelFormat::kRgb, options, size) == golden.bytes) << name;
    EXPECT_EQ(size, golden.size) << name;
  }
}

}  // namespace
}  // namespace bulkhead::golden_geometry_test

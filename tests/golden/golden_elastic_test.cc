// `elastic` against what NumPy works out from the same random numbers (make_golden_elastic.py), bit
// for bit; and that what belongs to an image goes with its pixels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/spec/normalize/normalize.h"
#include "tests/golden/golden_pipeline.h"
#include "tests/pipeline/detection_fixture.h"

namespace bulkhead::golden_elastic_test {
namespace {

using detection_testing::Detection;
using detection_testing::kDeclared;
using detection_testing::kDecoded;
using detection_testing::kHeight;
using detection_testing::kWidth;
using detection_testing::Made;
using detection_testing::NumbersOf;

class GoldenElasticTest : public GoldenPipelineTest {
 protected:
  GoldenElasticTest() : GoldenPipelineTest("elastic.golden") {}
};

TEST_F(GoldenElasticTest, PixelsAreThoseOfNumPy) {
  constexpr std::pair<const char*, const char*> kOptions[] = {
      {"default", "probability: 1"},
      {"strong", "alpha: 300 sigma: 4 fill: 200"},
      {"fine", "alpha: 9 sigma: 1.2 interpolation: INTERPOLATION_NEAREST fill: 7"},
      {"coarse", "alpha: 900 sigma: 23.5 interpolation: INTERPOLATION_NEAREST"}};
  for (const std::string picture : {"wide", "gray", "four"}) {
    for (const auto& [name, options] : kOptions) {
      PipelineUnderTest pipeline =
          PipelineOf(picture, In(absl::StrCat("elastic { ", options, " }")) + Whole(Get(picture)));
      for (uint64_t position = 0; position < 3; ++position) {
        const Produced produced = pipeline.Produce(0, {3, 1, position});
        ASSERT_TRUE(produced.status.ok()) << produced.status;
        const std::string golden = absl::StrCat(picture, "_", name, "_", position);
        EXPECT_TRUE(pipeline.Output(produced, "image") == Get(golden).bytes) << golden;
      }
    }
  }
}

TEST_F(GoldenElasticTest, WithoutChanceOrStrengthTheImageStays) {
  for (const std::string options : {"probability: 0", "alpha: 0"}) {
    ExpectMade("wide", In("elastic { " + options + " }") + Whole(Get("wide")), Get("wide"));
  }
}

constexpr char kNearest[] =
    "elastic { alpha: 150 sigma: 8 interpolation: INTERPOLATION_NEAREST } } "
    "stages { center_crop { size: [60, 80] }";

TEST(ElasticTest, MasksAreTheImageAgain) {
  for (uint64_t position = 0; position < 8; ++position) {
    const Made made(kDecoded + std::string(kDeclared) + In(kNearest),
                    detection_testing::PictureRecord(), {3, 1, position});
    ASSERT_TRUE(made.status().ok()) << made.status();
    EXPECT_TRUE(made.Bytes("image") == made.Bytes("mask")) << position;
  }
}

// A white rectangle on black: the box that was declared around it is around it afterwards, and the
// point in its corner is in the corner.
TEST(ElasticTest, BoxesAndPointsGoWithThePixels) {
  Image picture;
  const MutableImageView view = picture.Reshape({kHeight, kWidth}, 1);
  std::fill(view.data, view.data + kHeight * kWidth, uint8_t{0});
  const Rect rect = {15, 20, 25, 40};
  for (int y = rect.top; y < rect.bottom(); ++y) {
    std::fill(view.row(y) + rect.left, view.row(y) + rect.right(), uint8_t{255});
  }
  const std::string file = EncodePng(picture.view()).value();
  const std::vector<float> box = {20, 15, 60, 40};
  double moved_by = 0;
  for (uint64_t position = 0; position < 20; ++position) {
    const Made made(kDecoded + std::string(kDeclared) + In(kNearest), Detection(file, file, box),
                    {3, 1, position});
    ASSERT_TRUE(made.status().ok()) << made.status();
    const std::string pixels = made.Bytes("image");
    float white[4] = {1e9f, 1e9f, 0, 0};
    double nearest = 1e9;
    const std::vector<float> points = NumbersOf<float>(made.Bytes("points"));
    for (int y = 0; y < kHeight; ++y) {
      for (int x = 0; x < kWidth; ++x) {
        if (static_cast<uint8_t>(pixels[y * kWidth + x]) == 0) continue;
        white[0] = std::min(white[0], static_cast<float>(x));
        white[1] = std::min(white[1], static_cast<float>(y));
        white[2] = std::max(white[2], x + 1.0f);
        white[3] = std::max(white[3], y + 1.0f);
        nearest = std::min(nearest, std::hypot(x + 0.5 - points[0], y + 0.5 - points[1]));
      }
    }
    const std::vector<float> boxes = NumbersOf<float>(made.Bytes("boxes"));
    for (int i = 0; i < 4; ++i) {
      EXPECT_NEAR(boxes[i], white[i], 1) << position;
      moved_by = std::max(moved_by, std::fabs(double{boxes[i]} - box[i]));
    }
    EXPECT_LE(nearest, 1.5) << position;
    // Its other point is the rectangle's middle.
    const auto column = static_cast<int>(points[2]);
    EXPECT_NE(pixels[static_cast<int>(points[3]) * kWidth + column], 0) << position;
  }
  EXPECT_GT(moved_by, 3);
}

// A spec with the stage `elastic` of these options, as it is written.
v1::PipelineSpec Written(const std::string& options) {
  v1::PipelineSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      kFeatures + In("decode_image {}") + In("elastic { " + options + " }"), &spec));
  return spec;
}

TEST(ElasticTest, SpecsAreCompletedAndChecked) {
  v1::PipelineSpec spec = Written("");
  ASSERT_TRUE(Normalize(spec).ok());
  const v1::Elastic& options = spec.stages(1).elastic();
  EXPECT_EQ(options.alpha(), 50);
  EXPECT_EQ(options.sigma(), 5);
  EXPECT_EQ(options.probability(), 1);
  EXPECT_EQ(options.interpolation(), v1::INTERPOLATION_LINEAR);
  for (const std::string wrong :
       {"alpha: -1", "alpha: 10001", "sigma: 0.5", "sigma: 1001", "probability: 2",
        "interpolation: INTERPOLATION_CUBIC", "fill: 256"}) {
    spec = Written(wrong);
    EXPECT_FALSE(Normalize(spec).ok()) << wrong;
  }
}

}  // namespace
}  // namespace bulkhead::golden_elastic_test

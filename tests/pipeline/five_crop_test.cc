// five_crop, and the stages that may follow it.
#include <cstring>

#include "gmock/gmock.h"
#include "tests/pipeline/pipeline_fixture.h"

namespace bulkhead {
namespace {

using ::testing::HasSubstr;

constexpr char kDecode[] = "stages { decode_image {} } ";
constexpr char kFive[] = "stages { decode_image {} } stages { five_crop { size: [10, 12] } } ";
constexpr char kOnlyImage[] = " outputs: 'image'";

std::string ImageOf(const std::string& stages, int height = 25, int width = 40, bool fuse = true) {
  PipelineUnderTest pipeline(MakeSpec(stages + kOnlyImage), {MakeRecord(MakeJpeg(height, width))},
                             fuse);
  const Produced produced = pipeline.Produce(0, {1, 2, 3});
  EXPECT_TRUE(produced.status.ok()) << produced.status;
  return produced.status.ok() ? pipeline.Output(produced, "image") : "";
}

// The image cut at (top, left), by `pad` and `center_crop`'s simplest relative: bytes.
std::string Cut(const std::string& image, int width, int top, int left) {
  std::string cut;
  for (int y = top; y < top + 10; ++y) cut += image.substr((y * width + left) * 3, 12 * 3);
  return cut;
}

TEST(FiveCropTest, GivesCornersAndCentre) {
  const std::string whole =
      ImageOf(std::string(kDecode) + "stages { center_crop { size: [25, 40] } }");
  ASSERT_EQ(whole.size(), 25u * 40 * 3);
  std::string expected = Cut(whole, 40, 0, 0) + Cut(whole, 40, 0, 28) + Cut(whole, 40, 15, 0) +
                         Cut(whole, 40, 15, 28) + Cut(whole, 40, 7, 14);
  EXPECT_EQ(ImageOf(kFive), expected);
  EXPECT_EQ(ImageOf(kFive, 25, 40, false), expected);
}

TEST(FiveCropTest, AnImageOfItsSizeIsGivenFiveTimes) {
  const std::string five = ImageOf(kFive, 10, 12);
  ASSERT_EQ(five.size(), 5u * 10 * 12 * 3);
  for (int i = 1; i < 5; ++i) EXPECT_EQ(five.substr(i * 360, 360), five.substr(0, 360));
}

TEST(FiveCropTest, ASmallerImageIsASampleError) {
  PipelineUnderTest pipeline(MakeSpec(std::string(kFive) + kOnlyImage),
                             {MakeRecord(MakeJpeg(9, 12))});
  const absl::Status status = pipeline.Produce(0, {}).status;
  EXPECT_TRUE(IsSampleError(status));
  EXPECT_EQ(GetErrorInfo(status)->reason, reason::kImageTooSmall);
  EXPECT_THAT(std::string(status.message()), HasSubstr("stages[1] five_crop"));
}

TEST(FiveCropTest, LayoutTurnsEachImage) {
  const std::string packed = ImageOf(kFive);
  const std::string planar =
      ImageOf(std::string(kFive) + "stages { layout { to: IMAGE_LAYOUT_NCHW } }");
  ASSERT_EQ(planar.size(), packed.size());
  for (size_t i = 0; i < 5; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      for (size_t p = 0; p < 120; ++p) {
        ASSERT_EQ(planar[i * 360 + c * 120 + p], packed[i * 360 + p * 3 + c]);
      }
    }
  }
  EXPECT_EQ(ImageOf(std::string(kFive) + "stages { layout { to: IMAGE_LAYOUT_NCHW } } "
                                         "stages { layout { to: IMAGE_LAYOUT_NHWC } }"),
            packed);
}

TEST(FiveCropTest, NormalizeGoesByChannelInBothLayouts) {
  const std::string normalize = "stages { normalize { mean: [1, 2, 3] std: [2, 4, 8] } } ";
  const std::string layout = "stages { layout { to: IMAGE_LAYOUT_NCHW } } ";
  const std::string one = ImageOf(kFive + normalize + layout);
  EXPECT_EQ(ImageOf(kFive + layout + normalize), one);
  const std::string packed = ImageOf(kFive);
  float first = 0;
  std::memcpy(&first, one.data() + (360 + 120 + 5) * 4, 4);  // image 1, channel 1, pixel 5
  EXPECT_EQ(first, (static_cast<float>(static_cast<uint8_t>(packed[360 + 5 * 3 + 1])) - 2) / 4);
}

}  // namespace
}  // namespace bulkhead

#include "tools/common/tensor_image.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

namespace bulkhead::tools {
namespace {

template <typename T>
Tensor Of(const std::vector<T>& values, ElementType type, std::vector<int64_t> shape) {
  return {"x", type, sizeof(T), std::move(shape), values.data(), values.size() * sizeof(T)};
}

// The RGB pixels of the only sample's first row.
std::vector<std::array<int, 3>> FirstRow(const Tensor& tensor, const Tones& tones = {}) {
  Image image;
  TensorImages(tensor, tones).ToRgb(0, image);
  const ImageView view = image.view();
  std::vector<std::array<int, 3>> pixels;
  for (int x = 0; x < view.width; ++x) {
    const uint8_t* const pixel = view.row(0) + x * 3;
    pixels.push_back({pixel[0], pixel[1], pixel[2]});
  }
  return pixels;
}

using Row = std::vector<std::array<int, 3>>;

// 2 × 2 pixels whose channel c holds 10 c + the pixel's column.
std::vector<uint8_t> Pixels(int channels) {
  std::vector<uint8_t> values;
  for (int pixel = 0; pixel < 4; ++pixel) {
    for (int c = 0; c < channels; ++c) values.push_back(static_cast<uint8_t>(10 * c + pixel % 2));
  }
  return values;
}

TEST(TensorImagesTest, OneChannelIsGrayThreeAreAColour) {
  const auto gray = Pixels(1), rgb = Pixels(3);
  EXPECT_EQ(FirstRow(Of(gray, ElementType::kUint8, {1, 2, 2, 1})), (Row{{0, 0, 0}, {1, 1, 1}}));
  EXPECT_EQ(FirstRow(Of(rgb, ElementType::kUint8, {1, 2, 2, 3})), (Row{{0, 10, 20}, {1, 11, 21}}));
}

TEST(TensorImagesTest, TwoChannelsAreTwoPanes) {
  const auto values = Pixels(2);
  const Tensor tensor = Of(values, ElementType::kUint8, {1, 2, 2, 2});
  EXPECT_FALSE(LooksLikeImages(tensor));
  ASSERT_TRUE(MayBeImages(tensor));
  EXPECT_EQ(TensorImages(tensor, {}).size(), (ImageSize{2, 2}));
  EXPECT_EQ(FirstRow(tensor), (Row{{0, 0, 0}, {1, 1, 1}, {10, 10, 10}, {11, 11, 11}}));
}

TEST(TensorImagesTest, TheFourthChannelIsAPaneOfItsOwn) {
  const auto values = Pixels(4);
  EXPECT_EQ(FirstRow(Of(values, ElementType::kUint8, {1, 2, 2, 4})),
            (Row{{0, 10, 20}, {1, 11, 21}, {30, 30, 30}, {31, 31, 31}}));
}

TEST(TensorImagesTest, NineChannelsAreThreeColourImages) {
  const auto values = Pixels(9);
  const Tensor tensor = Of(values, ElementType::kUint8, {1, 2, 2, 9});
  ASSERT_TRUE(MayBeImages(tensor));
  EXPECT_EQ(
      FirstRow(tensor),
      (Row{{0, 10, 20}, {1, 11, 21}, {30, 40, 50}, {31, 41, 51}, {60, 70, 80}, {61, 71, 81}}));
}

TEST(TensorImagesTest, ChannelsMayComeFirst) {
  std::vector<uint8_t> values;
  for (int c = 0; c < 4; ++c) values.insert(values.end(), 4 * 4, static_cast<uint8_t>(c + 1));
  const Tensor tensor = Of(values, ElementType::kUint8, {1, 4, 4, 4});
  EXPECT_TRUE(LooksLikeImages(tensor)) << "channels last, first of all";
  values.resize(4 * 5 * 5, 9);
  const Tensor first = Of(values, ElementType::kUint8, {1, 4, 5, 5});
  ASSERT_TRUE(MayBeImages(first));
  EXPECT_EQ(TensorImages(first, {}).size(), (ImageSize{5, 5}));
  EXPECT_EQ(TensorImages(first, {}).panes(), 2);
}

TEST(TensorImagesTest, StackedImagesAreSideBySide) {
  std::vector<uint8_t> values = Pixels(3);
  for (const uint8_t value : Pixels(3)) values.push_back(static_cast<uint8_t>(value + 100));
  const Tensor tensor = Of(values, ElementType::kUint8, {1, 2, 2, 2, 3});
  EXPECT_FALSE(LooksLikeImages(tensor));
  ASSERT_TRUE(MayBeImages(tensor));
  EXPECT_EQ(FirstRow(tensor), (Row{{0, 10, 20}, {1, 11, 21}, {100, 110, 120}, {101, 111, 121}}));
}

TEST(TensorImagesTest, OtherNumbersOfChannelsAreNoImages) {
  const std::vector<uint8_t> values(7 * 7 * 7);
  EXPECT_FALSE(MayBeImages(Of(values, ElementType::kUint8, {1, 7, 7, 5})));
  EXPECT_FALSE(MayBeImages(Of(values, ElementType::kInt64, {1, 7, 7, 2})));
  EXPECT_FALSE(MayBeImages(Of(values, ElementType::kUint8, {1, 7, 2})));
}

Tones OfFloats(const std::vector<float>& values) {
  return TonesOf(Of(values, ElementType::kFloat32, {1, 1, static_cast<int64_t>(values.size()), 1}),
                 1);
}

TEST(TonesTest, AreThoseOfUsualRangesWhereAllValuesAreWithin) {
  const Tones unit = OfFloats({0.2f, 0.8f});
  EXPECT_EQ(unit.black, 0);
  EXPECT_EQ(unit.white, 1);
  EXPECT_EQ(DescribeTones(unit), "0 is black and 1 white");
  EXPECT_EQ(OfFloats({-0.5f, 0.5f}).black, -1);
  EXPECT_EQ(OfFloats({0, 200}).white, 255);
  EXPECT_EQ(DescribeTones(OfFloats({0, 200})), "") << "as they are";
}

TEST(TonesTest, OthersAreStretchedAndThatIsSaid) {
  const Tones tones = OfFloats({-2, 2.5f, std::numeric_limits<float>::infinity()});
  EXPECT_TRUE(tones.stretched);
  EXPECT_EQ(DescribeTones(tones),
            "-2 is black and 2.5 white, the smallest and the largest value of the first images");
}

TEST(TonesTest, BytesAreDrawnAsTheyAre) {
  const std::vector<uint8_t> values = {3, 4, 5, 6};
  EXPECT_EQ(DescribeTones(TonesOf(Of(values, ElementType::kUint8, {1, 2, 2, 1}), 1)), "");
}

TEST(TonesTest, DecideWhatIsDrawn) {
  const std::vector<float> values = {0, 0.5f, 1, 9};
  EXPECT_EQ(FirstRow(Of(values, ElementType::kFloat32, {1, 2, 2, 1}), {0, 1}),
            (Row{{0, 0, 0}, {128, 128, 128}}));
}

}  // namespace
}  // namespace bulkhead::tools

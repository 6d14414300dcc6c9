#include "tools/replay/contact_sheet.h"

#include <gtest/gtest.h>

#include <vector>

#include "server/image/codecs/image_decoder.h"

namespace bulkhead::tools {
namespace {

Tensor Shaped(ElementType type, std::vector<int64_t> shape) {
  return {"x", type, 1, std::move(shape), nullptr, 0};
}

TEST(ContactSheetTest, KnowsImagesByTheirShape) {
  EXPECT_TRUE(LooksLikeImages(Shaped(ElementType::kUint8, {4, 8, 8, 3})));
  EXPECT_TRUE(LooksLikeImages(Shaped(ElementType::kUint8, {4, 8, 8, 4})));
  EXPECT_TRUE(LooksLikeImages(Shaped(ElementType::kFloat32, {4, 3, 8, 8})));
  EXPECT_FALSE(LooksLikeImages(Shaped(ElementType::kInt64, {4, 8, 8, 3})));
  EXPECT_FALSE(LooksLikeImages(Shaped(ElementType::kUint8, {4, 8, 8, 7})));
  EXPECT_FALSE(LooksLikeImages(Shaped(ElementType::kUint8, {4, 8})));
}

// The pixels of a sheet, gray or RGB.
std::vector<uint8_t> Decode(const std::string& png, PixelFormat format, int channels,
                            ImageSize* size) {
  ImageDecoder decoder;
  *size = decoder.Open(png, 1 << 20).value();
  Image buffer;
  const ImageView view = decoder.Decode(format, WholeImage(*size), buffer).value();
  std::vector<uint8_t> pixels;
  for (int y = 0; y < size->height; ++y) {
    pixels.insert(pixels.end(), view.row(y), view.row(y) + size->width * channels);
  }
  return pixels;
}

TEST(ContactSheetTest, PutsImagesSideBySideInTheirOrder) {
  // Three images of 2 × 3 gray pixels: 10, 20 and 30 everywhere.
  std::vector<uint8_t> values;
  for (const uint8_t tone : {10, 20, 30}) values.insert(values.end(), 6, tone);
  const Tensor tensor = {"x", ElementType::kUint8, 1, {3, 2, 3, 1}, values.data(), values.size()};
  ImageSize size;
  const auto pixels = Decode(ContactSheetPng(tensor, 3).value(), PixelFormat::kGray, 1, &size);
  // Two columns and two rows, 2 pixels between and around.
  ASSERT_EQ(size, (ImageSize{10, 12}));
  const auto at = [&](int y, int x) { return pixels[y * 12 + x]; };
  EXPECT_EQ(at(2, 2), 10);
  EXPECT_EQ(at(3, 4), 10);
  EXPECT_EQ(at(2, 7), 20);
  EXPECT_EQ(at(6, 2), 30);
  EXPECT_EQ(at(6, 7), at(0, 0));  // nothing there
}

TEST(ContactSheetTest, ReadsPlanesAndStretchesFloats) {
  // One image of 2 × 2 pixels: red runs from −1 to 1, green is −1, blue is 1.
  const std::vector<float> values = {-1, -1, 0, 1, -1, -1, -1, -1, 1, 1, 1, 1};
  const Tensor tensor = {"x", ElementType::kFloat32, 4, {1, 3, 2, 2}, values.data(), 48};
  ImageSize size;
  const auto pixels = Decode(ContactSheetPng(tensor, 1).value(), PixelFormat::kRgb, 3, &size);
  ASSERT_EQ(size, (ImageSize{6, 6}));
  const auto at = [&](int y, int x, int c) { return pixels[(y * 6 + x) * 3 + c]; };
  EXPECT_EQ(at(2, 2, 0), 0);
  EXPECT_EQ(at(3, 2, 0), 128);
  EXPECT_EQ(at(3, 3, 0), 255);
  EXPECT_EQ(at(3, 3, 1), 0);
  EXPECT_EQ(at(2, 2, 2), 255);
}

}  // namespace
}  // namespace bulkhead::tools

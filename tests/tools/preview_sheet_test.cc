#include "tools/preview/preview_sheet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "server/image/codecs/image_decoder.h"
#include "server/image/draw/canvas.h"
#include "server/image/pixel_format.h"

namespace bulkhead::tools::preview_sheet_test {
namespace {

using Pixel = std::array<uint8_t, 3>;
constexpr Pixel kRed = {200, 10, 10};

PreviewCell Cell(int height, int width) {
  PreviewCell cell;
  const MutableImageView view = cell.image.Reshape({height, width}, 3);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) std::copy(kRed.begin(), kRed.end(), view.row(y) + x * 3);
  }
  return cell;
}

// The sheet's pixels.
class Drawn {
 public:
  explicit Drawn(const PreviewSheet& sheet) {
    const auto png = PreviewPng(sheet);
    EXPECT_TRUE(png.ok()) << png.status();
    ImageDecoder decoder;
    const auto size = decoder.Open(*png, 1 << 30);
    EXPECT_TRUE(size.ok()) << size.status();
    view_ = *decoder.Decode(PixelFormat::kRgb, WholeImage(*size), image_);
  }
  ImageSize size() const { return view_.size(); }
  Pixel At(int y, int x) const {
    const uint8_t* pixel = view_.row(y) + x * 3;
    return {pixel[0], pixel[1], pixel[2]};
  }
  // The smallest rectangle that holds all pixels of a colour.
  Rect Where(Pixel colour) const {
    int top = view_.height, left = view_.width, bottom = 0, right = 0;
    for (int y = 0; y < view_.height; ++y) {
      for (int x = 0; x < view_.width; ++x) {
        if (At(y, x) != colour) continue;
        top = std::min(top, y), left = std::min(left, x);
        bottom = std::max(bottom, y + 1), right = std::max(right, x + 1);
      }
    }
    return {top, left, bottom - top, right - left};
  }

 private:
  Image image_;
  ImageView view_;
};

PreviewSheet SheetOf(PreviewCell cell, int side) {
  PreviewSheet sheet;
  sheet.side = side;
  sheet.cells.push_back(std::move(cell));
  return sheet;
}

TEST(PreviewSheetTest, ShrinksLargeImagesToTheCell) {
  const Rect red = Drawn(SheetOf(Cell(200, 100), 50)).Where(kRed);
  EXPECT_EQ(red.height, 50);
  EXPECT_EQ(red.width, 25);
}

TEST(PreviewSheetTest, MagnifiesSmallImagesByAWholeNumber) {
  const Rect red = Drawn(SheetOf(Cell(10, 20), 50)).Where(kRed);
  EXPECT_EQ(red.height, 20);
  EXPECT_EQ(red.width, 40);
}

TEST(PreviewSheetTest, DrawsBoxesWhereTheyAreOnTheScaledImage) {
  PreviewCell cell = Cell(100, 100);
  cell.boxes.push_back({20, 40, 60, 80, ""});
  PreviewSheet sheet = SheetOf(std::move(cell), 200);
  const Rect red = Drawn(SheetOf(Cell(100, 100), 200)).Where(kRed);
  const Rect box = Drawn(sheet).Where({230, 159, 0});
  EXPECT_EQ(box, (Rect{red.top + 80, red.left + 40, 80, 80}));
}

ImageSize TagSize(const std::string& label, TextSize size) {
  return {Canvas::TextHeight(size) + 4, Canvas::TextWidth(label, size) + 4};
}

// A label as it should be drawn at (top, left) of the sheet: dark on a tag of the box's colour.
void ExpectTag(const Drawn& sheet, const std::string& label, int top, int left, TextSize size,
               Pixel colour) {
  Image image;
  const MutableImageView tag = image.Reshape(TagSize(label, size), 3);
  Canvas(tag, {colour[0], colour[1], colour[2]}).Text(label, 2, 2, size, {24, 24, 27});
  for (int y = 0; y < tag.height; ++y) {
    for (int x = 0; x < tag.width; ++x) {
      const uint8_t* pixel = tag.row(y) + x * 3;
      ASSERT_EQ(sheet.At(top + y, left + x), (Pixel{pixel[0], pixel[1], pixel[2]}))
          << label << " at " << y << ", " << x;
    }
  }
}

TEST(PreviewSheetTest, WritesLabelsAtTheUpperLeftCornersOfTheirBoxes) {
  constexpr std::array<Pixel, 2> kColours = {{{230, 159, 0}, {86, 180, 233}}};
  for (const int side : {100, 200}) {
    PreviewCell cell = Cell(100, 100);
    cell.boxes = {{10, 10, 60, 60, "7"}, {40, 70, 90, 95, "31"}};
    const Drawn drawn(SheetOf(std::move(cell), side));
    const Rect red = Drawn(SheetOf(Cell(100, 100), side)).Where(kRed);
    const int scale = side / 100;
    const TextSize size = scale == 1 ? TextSize::kSmall : TextSize::kNormal;
    ExpectTag(drawn, "7", red.top + 10 * scale, red.left + 10 * scale, size, kColours[0]);
    ExpectTag(drawn, "31", red.top + 70 * scale, red.left + 40 * scale, size, kColours[1]);
  }
}

TEST(PreviewSheetTest, KeepsLabelsOnTheImage) {
  PreviewCell cell = Cell(100, 100);
  cell.boxes = {{-20, -30, 50, 50, "4"}, {95, 96, 99, 99, "5"}};
  const Drawn drawn(SheetOf(std::move(cell), 100));
  const Rect red = Drawn(SheetOf(Cell(100, 100), 100)).Where(kRed);
  ExpectTag(drawn, "4", red.top, red.left, TextSize::kSmall, {230, 159, 0});
  const ImageSize tag = TagSize("5", TextSize::kSmall);
  ExpectTag(drawn, "5", red.top + 100 - tag.height, red.left + 100 - tag.width, TextSize::kSmall,
            {86, 180, 233});
}

TEST(PreviewSheetTest, LabelsDoNotCoverEachOther) {
  PreviewCell cell = Cell(100, 100);
  cell.boxes = {{20, 30, 90, 90, "11"}, {20, 30, 80, 80, "22"}, {22, 32, 70, 70, "33"}};
  const Drawn drawn(SheetOf(std::move(cell), 100));
  const Rect red = Drawn(SheetOf(Cell(100, 100), 100)).Where(kRed);
  const int height = TagSize("11", TextSize::kSmall).height;
  ExpectTag(drawn, "11", red.top + 30, red.left + 20, TextSize::kSmall, {230, 159, 0});
  ExpectTag(drawn, "22", red.top + 30 - height, red.left + 20, TextSize::kSmall, {86, 180, 233});
  ExpectTag(drawn, "33", red.top + 70, red.left + 22, TextSize::kSmall, {0, 158, 115});
}

TEST(PreviewSheetTest, LabelsWithoutAPlaceAreLeftOut) {
  PreviewCell cell = Cell(100, 100);
  for (int i = 0; i < 200; ++i) cell.boxes.push_back({40, 40, 60, 60, "777"});
  const Drawn drawn(SheetOf(std::move(cell), 100));
  const Rect red = Drawn(SheetOf(Cell(100, 100), 100)).Where(kRed);
  ExpectTag(drawn, "777", red.top + 40, red.left + 40, TextSize::kSmall, {230, 159, 0});
}

TEST(PreviewSheetTest, CutsATagAtTheEdgesOfItsImage) {
  PreviewSheet sheet = SheetOf(Cell(100, 8), 100);
  sheet.cells[0].boxes = {{0, 0, 8, 100, "123456"}};
  sheet.cells.push_back(Cell(8, 100));
  sheet.cells[1].boxes = {{0, 0, 100, 8, "7"}};
  sheet.columns = 2;
  const Drawn drawn(sheet);
  const Rect narrow = drawn.Where({230, 159, 0});
  const Rect red = drawn.Where(kRed);
  for (int x = red.left + 8; x < red.left + 100; ++x) {
    for (int y = red.top; y < red.top + 100; ++y) {
      ASSERT_EQ(drawn.At(y, x), (Pixel{24, 24, 27})) << "beside the image, at " << y << ", " << x;
    }
  }
  EXPECT_EQ(narrow.height, 100);
  for (int y = red.top + 8; y < red.top + 100; ++y) {
    ASSERT_EQ(drawn.At(y, red.left + 108), (Pixel{24, 24, 27})) << "below the other, at " << y;
  }
}

TEST(PreviewSheetTest, KeepsABoxFarOutsideOffTheOtherCells) {
  PreviewSheet sheet = SheetOf(Cell(100, 100), 100);
  sheet.cells[0].boxes.push_back({-1e30, -1e30, 1e30, 1e30, ""});
  sheet.cells.push_back(Cell(100, 100));
  sheet.columns = 2;
  const Rect box = Drawn(sheet).Where({230, 159, 0});
  EXPECT_LE(box.width, 104);
}

TEST(PreviewSheetTest, MakesRoomForCaptionsAndTitles) {
  PreviewSheet plain = SheetOf(Cell(50, 50), 50);
  PreviewSheet told = SheetOf(Cell(50, 50), 50);
  told.cells[0].caption = {"position 1", "label 7"};
  told.column_titles = {"resize"};
  EXPECT_EQ(Drawn(told).size().height, Drawn(plain).size().height + 3 * 18);
}

TEST(PreviewSheetTest, RefusesASheetThatNoViewerOpens) {
  PreviewSheet sheet = SheetOf(Cell(8, 8), 2048);
  for (int i = 0; i < 40; ++i) sheet.cells.push_back(Cell(8, 8));
  const auto png = PreviewPng(sheet);
  ASSERT_FALSE(png.ok());
  EXPECT_NE(png.status().message().find("fewer --samples"), absl::string_view::npos);
}

}  // namespace
}  // namespace bulkhead::tools::preview_sheet_test

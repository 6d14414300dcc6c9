#include "server/image/boxes/mosaic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

// Smaller and larger than the canvas, on either side.
constexpr ImageSize kCanvas = {7, 9};
const std::vector<ImageSize>& Sizes() {
  static const auto& sizes =
      *new std::vector<ImageSize>{{3, 2}, {1, 1}, {7, 9}, {20, 4}, {5, 30}, {4, 10}};
  return sizes;
}

TEST(MosaicTest, EveryPixelIsThatOfTheImageOnItsSideOfTheMeetingPoint) {
  const PixelFill fill = {200, 201, 202};
  for (int y = 0; y <= kCanvas.height; ++y) {
    for (int x = 0; x <= kCanvas.width; ++x) {
      for (size_t turn = 0; turn < Sizes().size(); ++turn) {
        std::vector<Image> images;
        Image around;
        const MutableImageView margin = around.Reshape({kCanvas.height + 2, kCanvas.width + 2}, 3);
        std::memset(margin.data, 7, margin.row_bytes() * margin.height);
        const MutableImageView canvas = margin.Crop({1, 1, kCanvas.height, kCanvas.width});
        for (int i = 0; i < kMosaicTiles; ++i) {
          const ImageSize size = Sizes()[(turn + i) % Sizes().size()];
          images.push_back(MakePicture(size.height, size.width, 3, 100 + i));
          DrawTile(images[i].view(), TileAt(i, y, x, size, kCanvas), fill, canvas);
        }
        for (int row = -1; row <= kCanvas.height; ++row) {
          for (int column = -1; column <= kCanvas.width; ++column) {
            const bool outside =
                row < 0 || column < 0 || row == kCanvas.height || column == kCanvas.width;
            const ImageView image = images[(row >= y ? 2 : 0) + (column >= x ? 1 : 0)].view();
            const int image_row = row >= y ? row - y : image.height - (y - row);
            const int image_column = column >= x ? column - x : image.width - (x - column);
            const bool inside = image_row >= 0 && image_row < image.height && image_column >= 0 &&
                                image_column < image.width;
            for (int c = 0; c < 3; ++c) {
              const int expected = outside  ? 7
                                   : inside ? image.row(image_row)[image_column * 3 + c]
                                            : fill[c];
              ASSERT_EQ(margin.row(row + 1)[(column + 1) * 3 + c], expected)
                  << y << " " << x << " " << turn << ": " << row << " " << column;
            }
          }
        }
      }
    }
  }
}

TEST(MosaicTest, AnImageAloneIsInTheMiddle) {
  for (const ImageSize size : Sizes()) {
    const Image image = MakePicture(size.height, size.width, 1);
    Image drawn;
    const MutableImageView canvas = drawn.Reshape(kCanvas, 1);
    DrawTile(image.view(), TileAlone(size, kCanvas), {99}, canvas);
    // As a centre crop's rectangle, or with the odd rest of the border at the bottom and right.
    const auto first = [](int inner, int outer) { return (outer - inner) / 2; };
    for (int row = 0; row < kCanvas.height; ++row) {
      for (int column = 0; column < kCanvas.width; ++column) {
        const int image_row = size.height > kCanvas.height
                                  ? row + first(kCanvas.height, size.height)
                                  : row - first(size.height, kCanvas.height);
        const int image_column = size.width > kCanvas.width
                                     ? column + first(kCanvas.width, size.width)
                                     : column - first(size.width, kCanvas.width);
        const bool inside = image_row >= 0 && image_row < size.height && image_column >= 0 &&
                            image_column < size.width;
        ASSERT_EQ(canvas.row(row)[column], inside ? image.view().row(image_row)[image_column] : 99);
      }
    }
  }
}

struct MovedBox {
  Box box;
  float visible;
};

MovedBox MoveBox(const Box& box, const MosaicTile& tile, ImageSize image, const BoxCoding& coding,
                 float visible_before = 1) {
  std::byte row[kBoxNumbers * sizeof(float)];
  WriteBox(box, coding, image, row);
  MovedBox moved;
  MoveBoxesIntoTile(image, tile, kCanvas, coding, row, &visible_before, 1, row, &moved.visible);
  moved.box = ReadBox(row, coding, kCanvas);
  return moved;
}

const std::vector<BoxCoding>& Codings() {
  static const auto& codings = *new std::vector<BoxCoding>{{BoxFormat::kXyxy, false},
                                                           {BoxFormat::kXywh, true},
                                                           {BoxFormat::kCxcywh, true},
                                                           {BoxFormat::kCxcywh, false}};
  return codings;
}

// The pixels under a box are white, all others black: so they are in the mosaic.
TEST(MosaicBoxesTest, LieOverTheSamePixelsAsBefore) {
  SampleRandom random(5, 0, 0, 0);
  int left_something = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const ImageSize size = Sizes()[random.NextBelow(Sizes().size())];
    const int y = static_cast<int>(random.NextBelow(kCanvas.height + 1));
    const int x = static_cast<int>(random.NextBelow(kCanvas.width + 1));
    const int number = static_cast<int>(random.NextBelow(kMosaicTiles + 1));
    const MosaicTile tile =
        number == kMosaicTiles ? TileAlone(size, kCanvas) : TileAt(number, y, x, size, kCanvas);
    const int left = static_cast<int>(random.NextBelow(size.width));
    const int top = static_cast<int>(random.NextBelow(size.height));
    const Box box = {static_cast<double>(left), static_cast<double>(top),
                     left + 1.0 + static_cast<double>(random.NextBelow(size.width - left)),
                     top + 1.0 + static_cast<double>(random.NextBelow(size.height - top))};
    Image image;
    const MutableImageView pixels = image.Reshape(size, 1);
    for (int row = 0; row < size.height; ++row) {
      for (int column = 0; column < size.width; ++column) {
        const bool inside =
            row >= box.top && row < box.bottom && column >= box.left && column < box.right;
        pixels.row(row)[column] = inside ? 255 : 0;
      }
    }
    Image drawn;
    const MutableImageView canvas = drawn.Reshape(kCanvas, 1);
    std::memset(canvas.data, 0, canvas.row_bytes() * canvas.height);
    DrawTile(image.view(), tile, {0}, canvas);
    const BoxCoding& coding = Codings()[random.NextBelow(Codings().size())];
    const MovedBox moved = MoveBox(box, tile, size, coding, 0.5f);
    int white = 0;
    for (int row = 0; row < kCanvas.height; ++row) {
      for (int column = 0; column < kCanvas.width; ++column) {
        const bool inside =
            row >= std::lround(moved.box.top) && row < std::lround(moved.box.bottom) &&
            column >= std::lround(moved.box.left) && column < std::lround(moved.box.right);
        ASSERT_EQ(canvas.row(row)[column] == 255, inside) << trial;
        white += inside ? 1 : 0;
      }
    }
    EXPECT_NEAR(moved.visible, 0.5 * white / box.area(), 1e-6);
    EXPECT_NEAR(moved.box.area(), white, 1e-4);
    left_something += white > 0 ? 1 : 0;
  }
  EXPECT_GT(left_something, 1000);
}

TEST(MosaicBoxesTest, AreCutWhereTheirImageEnds) {
  // The box reaches beyond its image, over the one beside it.
  const ImageSize size = {4, 4};
  const MosaicTile tile = TileAt(0, 5, 6, size, kCanvas);  // rows 1 to 4, columns 2 to 5
  const MovedBox moved = MoveBox({2, -3, 6, 2}, tile, size, {});
  EXPECT_EQ(moved.box.left, 4);
  EXPECT_EQ(moved.box.top, 1);
  EXPECT_EQ(moved.box.right, 6);
  EXPECT_EQ(moved.box.bottom, 3);
  EXPECT_FLOAT_EQ(moved.visible, 4.0f / 20);
  // One that lies beyond it has nothing left.
  const MovedBox gone = MoveBox({5, 1, 7, 2}, tile, size, {});
  EXPECT_EQ(gone.box.area(), 0);
  EXPECT_EQ(gone.visible, 0);
}

TEST(MosaicBoxesTest, WithoutSharesBeforeAreWhole) {
  std::byte row[kBoxNumbers * sizeof(float)];
  WriteBox({0, 0, 2, 2}, {}, {4, 4}, row);
  float visible = -1;
  MoveBoxesIntoTile({4, 4}, TileAt(3, 0, 0, {4, 4}, kCanvas), kCanvas, {}, row, nullptr, 1, row,
                    &visible);
  EXPECT_EQ(visible, 1);
}

TEST(MosaicPointsTest, MoveWithTheirPixelsAndAreNotCut) {
  const ImageSize size = {20, 4};
  const MosaicTile tile = TileAt(1, 5, 6, size, kCanvas);
  for (const bool relative : {false, true}) {
    const float scale[2] = {relative ? 4.0f : 1.0f, relative ? 20.0f : 1.0f};
    float points[4] = {1 / scale[0], 18 / scale[1], 3 / scale[0], 2 / scale[1]};
    MovePointsIntoTile(size, tile, kCanvas, relative, reinterpret_cast<std::byte*>(points), 2,
                       reinterpret_cast<std::byte*>(points));
    const float after[2] = {relative ? 9.0f : 1.0f, relative ? 7.0f : 1.0f};
    EXPECT_FLOAT_EQ(points[0] * after[0], 7);
    EXPECT_FLOAT_EQ(points[1] * after[1], 3);
    EXPECT_FLOAT_EQ(points[2] * after[0], 9);
    EXPECT_FLOAT_EQ(points[3] * after[1], -13);
  }
}

}  // namespace
}  // namespace bulkhead

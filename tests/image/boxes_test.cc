// Boxes, points and masks against the pixels that they belong to: an image is moved pixel by pixel,
// and what was marked in it is looked for.
#include "server/image/boxes/boxes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "server/image/boxes/move_mask.h"
#include "server/image/geometry/flip.h"
#include "server/image/resize/resize.h"
#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

constexpr ImageSize kSize{60, 80};

std::vector<std::byte> RowOf(const std::vector<float>& numbers) {
  std::vector<std::byte> row(numbers.size() * sizeof(float));
  std::memcpy(row.data(), numbers.data(), row.size());
  return row;
}

std::vector<float> NumbersOf(const std::vector<std::byte>& row) {
  std::vector<float> numbers(row.size() / sizeof(float));
  std::memcpy(numbers.data(), row.data(), row.size());
  return numbers;
}

Box Moved(const Geometry& geometry, const Box& box, float* visible = nullptr) {
  std::vector<std::byte> row(16);
  WriteBox(box, {}, geometry.before, row.data());
  float all = 1;
  MoveBoxes(geometry, {}, row.data(), 1, row.data(), visible == nullptr ? &all : visible);
  return ReadBox(row.data(), {}, geometry.after);
}

void ExpectBox(const Box& box, const Box& expected) {
  EXPECT_FLOAT_EQ(box.left, expected.left);
  EXPECT_FLOAT_EQ(box.top, expected.top);
  EXPECT_FLOAT_EQ(box.right, expected.right);
  EXPECT_FLOAT_EQ(box.bottom, expected.bottom);
}

TEST(BoxFormatTest, FormatsSayTheSameBox) {
  const std::vector<std::pair<BoxCoding, std::vector<float>>> rows = {
      {{BoxFormat::kXyxy, false}, {8, 12, 24, 42}},
      {{BoxFormat::kXywh, false}, {8, 12, 16, 30}},
      {{BoxFormat::kCxcywh, false}, {16, 27, 16, 30}},
      {{BoxFormat::kXyxy, true}, {0.1f, 0.2f, 0.3f, 0.7f}},
      {{BoxFormat::kXywh, true}, {0.1f, 0.2f, 0.2f, 0.5f}},
      {{BoxFormat::kCxcywh, true}, {0.2f, 0.45f, 0.2f, 0.5f}},
  };
  for (const auto& [coding, numbers] : rows) {
    const std::vector<std::byte> row = RowOf(numbers);
    const Box box = ReadBox(row.data(), coding, kSize);
    EXPECT_NEAR(box.left, 8, 1e-5);
    EXPECT_NEAR(box.top, 12, 1e-5);
    EXPECT_NEAR(box.right, 24, 1e-5);
    EXPECT_NEAR(box.bottom, 42, 1e-5);
    std::vector<std::byte> written(16);
    WriteBox({8, 12, 24, 42}, coding, kSize, written.data());
    for (int i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(NumbersOf(written)[i], numbers[i]);
  }
}

TEST(BoxFormatTest, WhatIsReadAndWrittenKeepsItsBits) {
  SampleRandom random(5, 0, 0, 0);
  for (int i = 0; i < 2000; ++i) {
    for (const BoxFormat format : {BoxFormat::kXyxy, BoxFormat::kXywh, BoxFormat::kCxcywh}) {
      const bool relative = i % 2 == 0;
      std::vector<float> numbers;
      for (int k = 0; k < 4; ++k) {
        numbers.push_back(static_cast<float>(random.NextUniform(0.001, relative ? 1 : 700)));
      }
      const std::vector<std::byte> row = RowOf(numbers);
      std::vector<std::byte> written(16);
      const BoxCoding coding{format, relative};
      WriteBox(ReadBox(row.data(), coding, {431, 653}), coding, {431, 653}, written.data());
      ASSERT_EQ(NumbersOf(written), numbers);
    }
  }
}

TEST(OverlapTest, CountsPixels) {
  SampleRandom random(7, 0, 0, 0);
  for (int i = 0; i < 300; ++i) {
    Box boxes[2];
    for (Box& box : boxes) {
      box.left = random.NextBelow(12);
      box.top = random.NextBelow(12);
      box.right = box.left + random.NextBelow(9);
      box.bottom = box.top + random.NextBelow(9);
    }
    int both = 0;
    int any = 0;
    for (int y = 0; y < 24; ++y) {
      for (int x = 0; x < 24; ++x) {
        const auto in = [&](const Box& b) {
          return x >= b.left && x < b.right && y >= b.top && y < b.bottom;
        };
        both += in(boxes[0]) && in(boxes[1]);
        any += in(boxes[0]) || in(boxes[1]);
      }
    }
    EXPECT_DOUBLE_EQ(Overlap(boxes[0], boxes[1]), any == 0 ? 0 : static_cast<double>(both) / any);
  }
}

TEST(MoveBoxesTest, CropsAndPaddingShiftAndCut) {
  ExpectBox(Moved(Geometry::Crop(kSize, {10, 20, 30, 40}), {25, 5, 70, 30}), {5, 0, 40, 20});
  ExpectBox(Moved(Geometry::Place(kSize, {100, 100}, 7, 9), {25, 5, 70, 30}), {34, 12, 79, 37});
  // Outside: empty, at the edge.
  ExpectBox(Moved(Geometry::Crop(kSize, {10, 20, 30, 40}), {0, 0, 10, 5}), {0, 0, 0, 0});
  ExpectBox(Moved(Geometry::Crop(kSize, {10, 20, 30, 40}), {70, 50, 80, 60}), {40, 30, 40, 30});
}

TEST(MoveBoxesTest, ResizesScaleAndFlipsMirror) {
  ExpectBox(Moved(Geometry::Resize(kSize, {30, 160}), {8, 12, 24, 42}), {16, 6, 48, 21});
  ExpectBox(Moved(Geometry::FlipColumns(kSize), {8, 12, 24, 42}), {56, 12, 72, 42});
  ExpectBox(Moved(Geometry::FlipRows(kSize), {8, 12, 24, 42}), {8, 18, 24, 48});
  // Neither cuts what reached beyond the image before.
  ExpectBox(Moved(Geometry::Resize(kSize, {30, 40}), {-8, 0, 90, 60}), {-4, 0, 45, 30});
}

TEST(MoveBoxesTest, FlippedTwiceIsTheSame) {
  SampleRandom random(9, 0, 0, 0);
  for (int i = 0; i < 500; ++i) {
    // Sixteenths of pixels: nothing is lost in float32.
    const auto side = [&](int most) { return random.NextBelow(16 * most + 1) / 16.0; };
    const Box box = {side(80), side(60), side(80), side(60)};
    for (const Geometry& flip : {Geometry::FlipColumns(kSize), Geometry::FlipRows(kSize)}) {
      const Box twice = Moved(flip, Moved(flip, box));
      EXPECT_EQ(twice.left, box.left);
      EXPECT_EQ(twice.top, box.top);
      EXPECT_EQ(twice.right, box.right);
      EXPECT_EQ(twice.bottom, box.bottom);
    }
  }
}

TEST(MoveBoxesTest, VisibleSharesMultiply) {
  float visible = 1;
  Box box = Moved(Geometry::Crop(kSize, {0, 20, 60, 60}), {10, 10, 30, 30}, &visible);
  EXPECT_FLOAT_EQ(visible, 0.5f);
  box = Moved(Geometry::FlipColumns({60, 60}), box, &visible);
  EXPECT_FLOAT_EQ(visible, 0.5f);
  box = Moved(Geometry::Crop({60, 60}, {15, 0, 45, 60}), box, &visible);
  EXPECT_FLOAT_EQ(visible, 0.375f);
  // What was cut off is not back in a larger canvas.
  box = Moved(Geometry::Place({45, 60}, {200, 200}, 50, 50), box, &visible);
  EXPECT_FLOAT_EQ(visible, 0.375f);
  EXPECT_DOUBLE_EQ(box.area(), 150);
  (void)Moved(Geometry::Crop({200, 200}, {0, 0, 10, 10}), box, &visible);
  EXPECT_EQ(visible, 0);
}

// A mask of `size` that is 1 under `rect`.
Image MarkedMask(ImageSize size, const Rect& rect) {
  Image image;
  const MutableImageView view = image.Reshape(size, 1);
  std::memset(view.data, 0, view.row_bytes() * view.height);
  for (int y = rect.top; y < rect.bottom(); ++y) {
    std::memset(view.row(y) + rect.left, 1, rect.width);
  }
  return image;
}

// The smallest box around the marked pixels.
Box AroundMarks(const ImageView& mask) {
  Box box = {1e9, 1e9, -1e9, -1e9};
  for (int y = 0; y < mask.height; ++y) {
    for (int x = 0; x < mask.width; ++x) {
      if (mask.row(y)[x] == 0) continue;
      box = {std::min<double>(box.left, x), std::min<double>(box.top, y),
             std::max<double>(box.right, x + 1), std::max<double>(box.bottom, y + 1)};
    }
  }
  return box;
}

// Any step on an image of kSize.
Geometry RandomGeometry(SampleRandom& random, bool perspective) {
  switch (random.NextBelow(perspective ? 7 : 6)) {
    case 0:
      return Geometry::Crop(kSize, {static_cast<int>(random.NextBelow(20)),
                                    static_cast<int>(random.NextBelow(30)), 40, 50});
    case 1:
      return Geometry::Place(kSize, {75, 90}, static_cast<int>(random.NextBelow(30)) - 10,
                             static_cast<int>(random.NextBelow(30)) - 10);
    case 2:
      return Geometry::Resize(kSize, {20 + static_cast<int>(random.NextBelow(100)),
                                      20 + static_cast<int>(random.NextBelow(100))});
    case 3:
      return Geometry::FlipColumns(kSize);
    case 4:
      return Geometry::FlipRows(kSize);
    case 5:
      return Geometry::Warp(kSize, AffineMap(kSize, {.angle = random.NextUniform(-180, 180),
                                                     .shift_x = random.NextUniform(-9, 9),
                                                     .shift_y = random.NextUniform(-9, 9),
                                                     .scale = random.NextUniform(0.7, 1.6),
                                                     .shear_x = random.NextUniform(-30, 30),
                                                     .shear_y = random.NextUniform(-30, 30)}));
    default: {
      const auto map = PerspectiveMap(kSize, RandomCorners(kSize, 0.6, random));
      return map.has_value() ? Geometry::Warp(kSize, *map) : Geometry::FlipRows(kSize);
    }
  }
}

TEST(MoveBoxesTest, MarkedPixelsLieInTheMovedBoxAndFillIt) {
  SampleRandom random(11, 0, 0, 0);
  ScratchBuffer memory;
  ScratchBuffer row;
  int seen = 0;
  for (int i = 0; i < 2000; ++i) {
    const Rect rect = {
        static_cast<int>(random.NextBelow(40)), static_cast<int>(random.NextBelow(50)),
        8 + static_cast<int>(random.NextBelow(12)), 8 + static_cast<int>(random.NextBelow(20))};
    const Geometry geometry = RandomGeometry(random, true);
    SCOPED_TRACE(static_cast<int>(geometry.kind));
    Image mask = MarkedMask(kSize, rect);
    const auto moved = MoveMask(geometry, 0, mask.mutable_view(), memory, row);
    ASSERT_TRUE(moved.ok());
    ASSERT_EQ(moved->view.size(), geometry.after);
    const Box marks = AroundMarks(moved->view);
    if (marks.left > marks.right) continue;
    ++seen;
    const Box box =
        Moved(geometry, {static_cast<double>(rect.left), static_cast<double>(rect.top),
                         static_cast<double>(rect.right()), static_cast<double>(rect.bottom())});
    // A pixel is marked when its middle is: the middles of the outermost ones lie inside. OpenCV's
    // nearest resize asks for its upper left corner instead.
    const double part = (geometry.kind == Geometry::Kind::kResize ? 1 : 0.5) + 1e-4;
    ASSERT_LE(box.left, marks.left + part);
    ASSERT_LE(box.top, marks.top + part);
    ASSERT_GE(box.right, marks.right - part);
    ASSERT_GE(box.bottom, marks.bottom - part);
    // And the box is not larger than a marked pixel beyond them; a turned corner may be so sharp
    // that no pixel's middle is in its tip, and a part that was cut off may have been the widest.
    if (geometry.kind == Geometry::Kind::kWarp) continue;
    const double stretch_x = static_cast<double>(geometry.after.width) / geometry.before.width;
    const double slack = std::max(1.0, stretch_x) + 1;
    ASSERT_GE(box.left, marks.left - slack);
    ASSERT_LE(box.right, marks.right + slack);
  }
  EXPECT_GT(seen, 1500);
}

TEST(MoveBoxesTest, TurnedBoxesAreTight) {
  SampleRandom random(12, 0, 0, 0);
  ScratchBuffer memory;
  ScratchBuffer row;
  for (int i = 0; i < 200; ++i) {
    const Geometry turn = Geometry::Warp(kSize, RotationMap(kSize, random.NextUniform(-180, 180)));
    const Rect rect = {22, 30, 16, 20};  // stays inside whichever way it turns
    Image mask = MarkedMask(kSize, rect);
    const Box marks = AroundMarks(MoveMask(turn, 0, mask.mutable_view(), memory, row)->view);
    const Box box = Moved(turn, {30, 22, 50, 38});
    EXPECT_NEAR(box.left, marks.left, 2.5);
    EXPECT_NEAR(box.top, marks.top, 2.5);
    EXPECT_NEAR(box.right, marks.right, 2.5);
    EXPECT_NEAR(box.bottom, marks.bottom, 2.5);
  }
}

TEST(MoveBoxesTest, ABoxAcrossTheHorizonIsTheWholeCanvas) {
  WarpMap map;
  map.m = {1, 0, 0, 0, 1, 0, 0.02, 0, 1};  // x = 50 of the input is infinitely far
  const Geometry geometry = Geometry::Warp(kSize, map);
  ExpectBox(Moved(geometry, {40, 10, 60, 20}), {0, 0, 80, 60});
  const PointMover mover(geometry);
  for (const double x : {49.9, 50.0, 50.1}) {
    EXPECT_TRUE(std::isfinite(mover.Move({x, 10}).x));
  }
}

TEST(MovePointsTest, PointsGoWhereTheirPixelsGo) {
  SampleRandom random(13, 0, 0, 0);
  ScratchBuffer memory;
  ScratchBuffer row;
  int seen = 0;
  for (int i = 0; i < 1000; ++i) {
    const Geometry geometry = RandomGeometry(random, false);
    const int x = static_cast<int>(random.NextBelow(70));
    const int y = static_cast<int>(random.NextBelow(50));
    for (const bool relative : {false, true}) {
      // The middle of a marked spot of 9 x 9 pixels.
      std::vector<std::byte> point =
          RowOf({static_cast<float>((x + 4.5) / (relative ? kSize.width : 1)),
                 static_cast<float>((y + 4.5) / (relative ? kSize.height : 1))});
      MovePoints(geometry, relative, point.data(), 1, point.data());
      const std::vector<float> moved = NumbersOf(point);
      const double to_x = moved[0] * (relative ? geometry.after.width : 1.0);
      const double to_y = moved[1] * (relative ? geometry.after.height : 1.0);
      if (to_x < 0 || to_y < 0 || to_x >= geometry.after.width || to_y >= geometry.after.height) {
        continue;
      }
      Image mask = MarkedMask(kSize, {y, x, 9, 9});
      const auto pixels = MoveMask(geometry, 0, mask.mutable_view(), memory, row);
      ++seen;
      ASSERT_EQ(pixels->view.row(static_cast<int>(to_y))[static_cast<int>(to_x)], 1)
          << static_cast<int>(geometry.kind);
    }
  }
  EXPECT_GT(seen, 1000);
}

TEST(MoveMaskTest, PixelsAreThoseOfTheNearestResizeAndFillTheRest) {
  const Image picture = MakePicture(kSize.height, kSize.width, 1);
  Image expected;
  ScratchBuffer memory;
  ScratchBuffer row;
  Image mask = MakePicture(kSize.height, kSize.width, 1);
  ASSERT_TRUE(
      ResizeImage(picture.view(), ResizeMethod::kNearest, expected.Reshape({33, 97}, 1)).ok());
  EXPECT_EQ(
      PixelsOf(
          MoveMask(Geometry::Resize(kSize, {33, 97}), 0, mask.mutable_view(), memory, row)->view),
      PixelsOf(expected.view()));
  LegacyResizeNearest(picture.view(), LegacyCenters::kAligned, expected.Reshape({33, 97}, 1), row);
  EXPECT_EQ(PixelsOf(MoveMask(Geometry::Resize(kSize, {33, 97}, LegacyCenters::kAligned), 0,
                              mask.mutable_view(), memory, row)
                         ->view),
            PixelsOf(expected.view()));
  const auto placed =
      MoveMask(Geometry::Place(kSize, {70, 90}, 3, 4), 255, mask.mutable_view(), memory, row);
  for (int y = 0; y < 70; ++y) {
    for (int x = 0; x < 90; ++x) {
      const bool inside = y >= 3 && y < 63 && x >= 4 && x < 84;
      ASSERT_EQ(placed->view.row(y)[x], inside ? picture.view().row(y - 3)[x - 4] : 255);
    }
  }
}

}  // namespace
}  // namespace bulkhead

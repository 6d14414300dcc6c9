#include "server/image/geometry/displacement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "server/image/boxes/boxes.h"
#include "server/image/boxes/move_mask.h"
#include "server/image/geometry/geometry.h"
#include "tests/image/test_images.h"

namespace bulkhead::displacement_test {
namespace {

constexpr ImageSize kSize{60, 80};
constexpr uint8_t kFill[] = {1, 2, 3};

// A displacement and its nodes, each as `at` says for the node's place.
struct Field {
  template <typename At>
  Field(int spacing, const At& at) {
    view.spacing = spacing;
    view.rows = Displacement::NodesAlong(kSize.height, spacing);
    view.columns = Displacement::NodesAlong(kSize.width, spacing);
    for (int row = 0; row < view.rows; ++row) {
      for (int column = 0; column < view.columns; ++column) {
        const ImagePoint moved = at(column * spacing, row * spacing);
        x.push_back(static_cast<float>(moved.x));
        y.push_back(static_cast<float>(moved.y));
      }
    }
    view.x = x.data();
    view.y = y.data();
  }

  std::vector<float> x;
  std::vector<float> y;
  Displacement view;
};

// Bends by up to `most` pixels, and nowhere by more than 0.7 pixels from one pixel to the next.
Field Bent(double most = 6) {
  return Field(4, [=](double x, double y) {
    return ImagePoint{most * std::sin(y / 11), most * std::cos((x + y) / 13)};
  });
}

ImagePoint SourceOf(const Displacement& field, ImagePoint point) {
  const ImagePoint moved = field.At(point);
  return {point.x + moved.x, point.y + moved.y};
}

Image Warped(const Image& in, const Displacement& field, WarpMethod method) {
  Image out;
  WarpImage(in.view(), field, method, kFill, out.Reshape(in.view().size(), in.view().channels));
  return out;
}

TEST(DisplacementTest, IsLinearBetweenItsNodesAndFlatBeyondThem) {
  const Field field(8, [](double x, double y) { return ImagePoint{0.5 * x, 0.25 * y + x}; });
  for (const ImagePoint point : {ImagePoint{0, 0}, {8, 16}, {3.5, 9.25}, {79.5, 59.5}}) {
    EXPECT_NEAR(field.view.At(point).x, 0.5 * point.x, 1e-9);
    EXPECT_NEAR(field.view.At(point).y, 0.25 * point.y + point.x, 1e-9);
  }
  EXPECT_EQ(field.view.At({-7, 8}).x, 0);
  EXPECT_EQ(field.view.At({1e30, 8}).x, 40);
  EXPECT_EQ(field.view.At({0, -1e30}).y, 0);
}

TEST(DisplacementTest, InvertFindsWhereAPointWent) {
  const Field field = Bent();
  for (double y = 0; y <= kSize.height; y += 7.3) {
    for (double x = 0; x <= kSize.width; x += 5.1) {
      const ImagePoint back = SourceOf(field.view, field.view.Invert({x, y}));
      EXPECT_NEAR(back.x, x, 1.0 / 256);
      EXPECT_NEAR(back.y, y, 1.0 / 256);
    }
  }
}

// Folded over itself: no point need do, but the answer is one that came near, and always the same.
TEST(DisplacementTest, InvertOfAFoldStaysNear) {
  const Field field = Bent(40);
  for (double x = 5; x < kSize.width; x += 9) {
    const ImagePoint found = field.view.Invert({x, 30});
    const ImagePoint back = SourceOf(field.view, found);
    const ImagePoint start = SourceOf(field.view, {x, 30});
    EXPECT_LE(std::hypot(back.x - x, back.y - 30), std::hypot(start.x - x, start.y - 30));
    EXPECT_EQ(found.x, field.view.Invert({x, 30}).x);
  }
}

TEST(DisplacementTest, WholePixelsMoveExactlyAndBringInTheFill) {
  const Image image = MakePicture(kSize.height, kSize.width, 3);
  const Field field(16, [](double, double) { return ImagePoint{3, -2}; });
  for (const WarpMethod method : {WarpMethod::kNearest, WarpMethod::kLinear}) {
    const Image moved = Warped(image, field.view, method);
    for (int y = 0; y < kSize.height; ++y) {
      for (int x = 0; x < kSize.width; ++x) {
        const bool inside = x + 3 < kSize.width && y - 2 >= 0;
        const uint8_t* expected = inside ? image.view().row(y - 2) + 3 * (x + 3) : kFill;
        ASSERT_EQ(0, std::memcmp(moved.view().row(y) + 3 * x, expected, 3)) << x << " " << y;
      }
    }
  }
}

TEST(DisplacementTest, PixelsComeFromWhereItSays) {
  const Field field = Bent();
  for (const int channels : {1, 3, 4}) {
    const Image image = MakePicture(kSize.height, kSize.width, channels);
    const std::vector<uint8_t> fill(4, 9);
    Image nearest;
    Image linear;
    WarpImage(image.view(), field.view, WarpMethod::kNearest, fill.data(),
              nearest.Reshape(kSize, channels));
    WarpImage(image.view(), field.view, WarpMethod::kLinear, fill.data(),
              linear.Reshape(kSize, channels));
    const auto pixel = [&](int x, int y, int c) {
      const bool inside = x >= 0 && x < kSize.width && y >= 0 && y < kSize.height;
      return inside ? image.view().row(y)[x * channels + c] : fill[c];
    };
    for (int y = 0; y < kSize.height; ++y) {
      for (int x = 0; x < kSize.width; ++x) {
        const ImagePoint from = SourceOf(field.view, {x + 0.5, y + 0.5});
        const int left = static_cast<int>(std::floor(from.x - 0.5));
        const int top = static_cast<int>(std::floor(from.y - 0.5));
        const double right_share = from.x - 0.5 - left;
        const double bottom_share = from.y - 0.5 - top;
        for (int c = 0; c < channels; ++c) {
          const size_t at = static_cast<size_t>(x) * channels + c;
          const int expected =
              pixel(static_cast<int>(std::floor(from.x)), static_cast<int>(std::floor(from.y)), c);
          ASSERT_EQ(nearest.view().row(y)[at], expected);
          const double mean = (1 - bottom_share) * ((1 - right_share) * pixel(left, top, c) +
                                                    right_share * pixel(left + 1, top, c)) +
                              bottom_share * ((1 - right_share) * pixel(left, top + 1, c) +
                                              right_share * pixel(left + 1, top + 1, c));
          ASSERT_NEAR(linear.view().row(y)[at], mean, 0.75);
        }
      }
    }
  }
}

TEST(DisplacementTest, MasksBecomeTheNearestPixels) {
  const Field field = Bent();
  Image mask = MakePicture(kSize.height, kSize.width, 1);
  const std::string before = PixelsOf(mask.view());
  const std::string expected = PixelsOf(Warped(mask, field.view, WarpMethod::kNearest).view());
  ScratchBuffer memory;
  ScratchBuffer row;
  const auto moved = MoveMask(Geometry::Displace(kSize, field.view), kFill[0],
                              mask.Reshape(kSize, 1), memory, row);
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_TRUE(moved->in_memory);
  EXPECT_EQ(PixelsOf(moved->view), expected);
  EXPECT_NE(expected, before);
}

TEST(DisplacementTest, PointsGoWhereTheirPixelsWent) {
  const Field field = Bent();
  const float points[] = {20, 30, 55.5, 10.25};
  float moved[4];
  MovePoints(Geometry::Displace(kSize, field.view), false,
             reinterpret_cast<const std::byte*>(points), 2, reinterpret_cast<std::byte*>(moved));
  for (int i = 0; i < 4; i += 2) {
    const ImagePoint back = SourceOf(field.view, {moved[i], moved[i + 1]});
    EXPECT_NEAR(back.x, points[i], 0.01);
    EXPECT_NEAR(back.y, points[i + 1], 0.01);
    EXPECT_GT(std::hypot(moved[i] - points[i], moved[i + 1] - points[i + 1]), 1);
  }
}

// Every pixel of the box, not its corners alone, is in the box that it becomes; and no edge of that
// is further away than it must.
TEST(DisplacementTest, BoxesHoldAllThatTheyHeldAndNoMore) {
  const Field field = Bent();
  const float row[] = {15, 12, 60, 40};
  float moved[4];
  float visible = 1;
  MoveBoxes(Geometry::Displace(kSize, field.view), {}, reinterpret_cast<const std::byte*>(row), 1,
            reinterpret_cast<std::byte*>(moved), &visible);
  double low_x = 1e9, low_y = 1e9, high_x = -1e9, high_y = -1e9;
  for (double y = row[1]; y <= row[3]; y += 0.5) {
    for (double x = row[0]; x <= row[2]; x += 0.5) {
      const ImagePoint point = field.view.Invert({x, y});
      low_x = std::min(low_x, point.x);
      low_y = std::min(low_y, point.y);
      high_x = std::max(high_x, point.x);
      high_y = std::max(high_y, point.y);
    }
  }
  EXPECT_NEAR(moved[0], low_x, 0.2);
  EXPECT_NEAR(moved[1], low_y, 0.2);
  EXPECT_NEAR(moved[2], high_x, 0.2);
  EXPECT_NEAR(moved[3], high_y, 0.2);
  EXPECT_EQ(visible, 1);
}

TEST(DisplacementTest, BoxesAreCutAtTheCanvas) {
  const Field field(16, [](double, double) { return ImagePoint{10, 0}; });
  const float row[] = {0, 10, 20, 30};
  float moved[4];
  float visible = 1;
  MoveBoxes(Geometry::Displace(kSize, field.view), {}, reinterpret_cast<const std::byte*>(row), 1,
            reinterpret_cast<std::byte*>(moved), &visible);
  EXPECT_EQ(moved[0], 0);
  EXPECT_NEAR(moved[2], 10, 0.01);
  EXPECT_NEAR(visible, 0.5, 0.01);
}

}  // namespace
}  // namespace bulkhead::displacement_test

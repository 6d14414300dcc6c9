#include "server/image/geometry/warp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

constexpr uint8_t kOutside[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

std::string Warped(const ImageView& in, const WarpMap& map, WarpMethod method) {
  Image out;
  WarpImage(in, map, method, kOutside, out.Reshape(in.size(), in.channels));
  return PixelsOf(out.view());
}

constexpr WarpMethod kMethods[] = {WarpMethod::kNearest, WarpMethod::kLinear};

TEST(WarpTest, IdentitiesAreExactForEveryMethodAndChannelCount) {
  for (const int channels : {1, 2, 3, 4, 9}) {
    for (const ImageSize size : {ImageSize{1, 1}, ImageSize{17, 30}, ImageSize{2, 1}}) {
      const Image image = MakePicture(size.height, size.width, channels);
      for (const WarpMethod method : kMethods) {
        EXPECT_EQ(Warped(image.view(), {}, method), PixelsOf(image.view()));
        EXPECT_EQ(Warped(image.view(), AffineMap(size, {}), method), PixelsOf(image.view()));
        EXPECT_EQ(Warped(image.view(), RotationMap(size, 360), method), PixelsOf(image.view()));
      }
    }
  }
}

TEST(WarpTest, QuarterAndHalfTurnsMovePixelsExactly) {
  const Image image = MakePicture(21, 21, 3);
  for (const WarpMethod method : kMethods) {
    const std::string quarter = Warped(image.view(), RotationMap({21, 21}, 90), method);
    const std::string half = Warped(image.view(), AffineMap({21, 21}, {.angle = 180}), method);
    for (int y = 0; y < 21; ++y) {
      for (int x = 0; x < 21; ++x) {
        const auto* q = reinterpret_cast<const uint8_t*>(quarter.data()) + 3 * (y * 21 + x);
        const auto* h = reinterpret_cast<const uint8_t*>(half.data()) + 3 * (y * 21 + x);
        // Counter-clockwise: the right edge comes to the top.
        ASSERT_EQ(0, std::memcmp(q, image.view().row(x) + 3 * (20 - y), 3));
        ASSERT_EQ(0, std::memcmp(h, image.view().row(20 - y) + 3 * (20 - x), 3));
      }
    }
  }
}

TEST(WarpTest, ShiftsBringInTheFill) {
  const Image image = MakePicture(8, 9, 3);
  const WarpMap map = AffineMap({8, 9}, {.shift_x = 2, .shift_y = -1});
  for (const WarpMethod method : kMethods) {
    const std::string moved = Warped(image.view(), map, method);
    for (int y = 0; y < 8; ++y) {
      for (int x = 0; x < 9; ++x) {
        const bool inside = x >= 2 && y + 1 < 8;
        ASSERT_EQ(0, std::memcmp(moved.data() + 3 * (y * 9 + x),
                                 inside ? image.view().row(y + 1) + 3 * (x - 2) : kOutside, 3));
      }
    }
  }
}

// Half a pixel to the right: each value is the mean of two, the first that of fill and image.
TEST(WarpTest, LinearMixesTheImageWithTheFillAtItsBorder) {
  Image image;
  const MutableImageView view = image.Reshape({1, 3}, 1);
  view.data[0] = 101;
  view.data[1] = 201;
  view.data[2] = 51;
  WarpMap map;
  map.m[2] = -0.5;
  const std::string moved = Warped(image.view(), map, WarpMethod::kLinear);
  EXPECT_EQ(moved, (std::string{51, static_cast<char>(151), 126}));
}

TEST(WarpTest, PointsThatAreNoNumbersAreOutside) {
  const Image image = MakePicture(4, 5, 3);
  std::string fill;
  for (int i = 0; i < 20; ++i) fill.append({1, 2, 3});
  const double kNan = std::numeric_limits<double>::quiet_NaN();
  WarpMap huge;
  huge.m = {1e300, 1e300, 1e300, 1e300, 1e300, 1e300, 0, 0, 1};
  WarpMap none;
  none.m[2] = kNan;
  WarpMap zero;
  zero.m[8] = 0;
  for (const WarpMethod method : kMethods) {
    for (const WarpMap& map : {huge, none, zero}) {
      EXPECT_EQ(Warped(image.view(), map, method), fill);
    }
  }
}

TEST(PerspectiveMapTest, TakesTheCornersWhereTheyBelong) {
  const Corners corners = {{{3, 2}, {30, 0}, {29, 22}, {1, 20}}};
  const WarpMap map = PerspectiveMap({25, 33}, corners).value();
  const Corners from = {{{0, 0}, {32, 0}, {32, 24}, {0, 24}}};
  for (int i = 0; i < 4; ++i) {
    const auto [x, y] = corners[i];
    const double w = map.m[6] * x + map.m[7] * y + map.m[8];
    EXPECT_NEAR((map.m[0] * x + map.m[1] * y + map.m[2]) / w, from[i][0], 1e-9);
    EXPECT_NEAR((map.m[3] * x + map.m[4] * y + map.m[5]) / w, from[i][1], 1e-9);
  }
}

TEST(PerspectiveMapTest, ThereIsNoneForCornersOnALine) {
  for (const ImageSize size : {ImageSize{1, 1}, ImageSize{1, 20}, ImageSize{20, 1}}) {
    SampleRandom random(1, 2, 3, 4);
    EXPECT_FALSE(PerspectiveMap(size, RandomCorners(size, 1, random)).has_value());
  }
  EXPECT_FALSE(PerspectiveMap({9, 9}, {{{4, 4}, {4, 4}, {4, 4}, {4, 4}}}).has_value());
}

TEST(RandomCornersTest, MoveInwardsAsFarAsTheDistortionSays) {
  Corners least = {{{99, 99}, {99, 99}, {99, 99}, {99, 99}}};
  Corners most{};
  for (uint64_t key = 0; key < 400; ++key) {
    SampleRandom random(1, 0, key, 0);
    const Corners corners = RandomCorners({21, 41}, 0.5, random);
    for (int i = 0; i < 4; ++i) {
      for (int d = 0; d < 2; ++d) {
        least[i][d] = std::min(least[i][d], corners[i][d]);
        most[i][d] = std::max(most[i][d], corners[i][d]);
      }
    }
  }
  EXPECT_EQ(least, (Corners{{{0, 0}, {30, 0}, {30, 15}, {0, 15}}}));
  EXPECT_EQ(most, (Corners{{{10, 5}, {40, 5}, {40, 20}, {10, 20}}}));
  SampleRandom random(1, 0, 0, 0);
  EXPECT_EQ(RandomCorners({21, 41}, 0, random), (Corners{{{0, 0}, {40, 0}, {40, 20}, {0, 20}}}));
}

}  // namespace
}  // namespace bulkhead

#include "server/image/geometry/warp.h"

#include <cmath>
#include <utility>

#include "server/image/deterministic_math.h"

namespace bulkhead {
namespace {

constexpr int kWeightBits = 11;
constexpr int kWeightOne = 1 << kWeightBits;

// The points of one row of the result, left to right.
template <bool kAffine>
class RowPoints {
 public:
  RowPoints(const WarpMap& map, int row) : m_(map.m) {
    const double y = row + 0.5;
    x_ = m_[1] * y + m_[2];
    y_ = m_[4] * y + m_[5];
    w_ = m_[7] * y + m_[8];
  }
  ImagePoint At(int column) const {
    const double x = column + 0.5;
    const ImagePoint point{m_[0] * x + x_, m_[3] * x + y_};
    if constexpr (kAffine) return point;
    const double w = m_[6] * x + w_;
    return {point.x / w, point.y / w};
  }

 private:
  const std::array<double, 9>& m_;
  double x_;
  double y_;
  double w_;
};

class DisplacedPoints {
 public:
  DisplacedPoints(const Displacement& displacement, int row)
      : displacement_(displacement), y_(row + 0.5) {}
  ImagePoint At(int column) const {
    const double x = column + 0.5;
    const ImagePoint moved = displacement_.At({x, y_});
    return {x + moved.x, y_ + moved.y};
  }

 private:
  const Displacement& displacement_;
  double y_;
};

// kChannels 0: as many as the image says. All comparisons are false for a point that is no number.
template <int kChannels, typename Points, typename Map>
void WarpNearest(const ImageView& in, const Map& map, const uint8_t* fill,
                 const MutableImageView& out) {
  const int channels = kChannels == 0 ? in.channels : kChannels;
  for (int row = 0; row < out.height; ++row) {
    const Points points(map, row);
    uint8_t* to = out.row(row);
    for (int column = 0; column < out.width; ++column, to += channels) {
      const ImagePoint point = points.At(column);
      const bool inside = point.x >= 0 && point.x < in.width && point.y >= 0 && point.y < in.height;
      const uint8_t* from =
          inside ? in.row(static_cast<int>(point.y)) + static_cast<int>(point.x) * channels : fill;
      for (int c = 0; c < channels; ++c) to[c] = from[c];
    }
  }
}

template <int kChannels, typename Points, typename Map>
void WarpLinear(const ImageView& in, const Map& map, const uint8_t* fill,
                const MutableImageView& out) {
  const int channels = kChannels == 0 ? in.channels : kChannels;
  const auto pixel = [&](int x, int y) {
    const bool inside = x >= 0 && x < in.width && y >= 0 && y < in.height;
    return inside ? in.row(y) + static_cast<size_t>(x) * channels : fill;
  };
  for (int row = 0; row < out.height; ++row) {
    const Points points(map, row);
    uint8_t* to = out.row(row);
    for (int column = 0; column < out.width; ++column, to += channels) {
      // Half a pixel on: the integer part is one more than the number of the pixel to the left.
      const ImagePoint point = points.At(column);
      const double x = point.x + 0.5;
      const double y = point.y + 0.5;
      if (!(x > 0 && x < in.width + 1.0 && y > 0 && y < in.height + 1.0)) {
        for (int c = 0; c < channels; ++c) to[c] = fill[c];
        continue;
      }
      const int left = static_cast<int>(x) - 1;
      const int top = static_cast<int>(y) - 1;
      const int right_weight = static_cast<int>((x - (left + 1)) * kWeightOne + 0.5);
      const int bottom_weight = static_cast<int>((y - (top + 1)) * kWeightOne + 0.5);
      const int left_weight = kWeightOne - right_weight;
      const int top_weight = kWeightOne - bottom_weight;
      const uint8_t* a = pixel(left, top);
      const uint8_t* b = pixel(left + 1, top);
      const uint8_t* p = pixel(left, top + 1);
      const uint8_t* q = pixel(left + 1, top + 1);
      for (int c = 0; c < channels; ++c) {
        const int upper = left_weight * a[c] + right_weight * b[c];
        const int lower = left_weight * p[c] + right_weight * q[c];
        to[c] = static_cast<uint8_t>(
            (top_weight * upper + bottom_weight * lower + (1 << (2 * kWeightBits - 1))) >>
            (2 * kWeightBits));
      }
    }
  }
}

template <int kChannels, typename Points, typename Map>
void Warp(const ImageView& in, const Map& map, WarpMethod method, const uint8_t* fill,
          const MutableImageView& out) {
  if (method == WarpMethod::kNearest) return WarpNearest<kChannels, Points>(in, map, fill, out);
  WarpLinear<kChannels, Points>(in, map, fill, out);
}

// Warps by the `Points` that `map` gives for each row.
template <typename Points, typename Map>
void WarpBy(const ImageView& in, const Map& map, WarpMethod method, const uint8_t* fill,
            const MutableImageView& out) {
  if (in.channels == 1) return Warp<1, Points>(in, map, method, fill, out);
  if (in.channels == 3) return Warp<3, Points>(in, map, method, fill, out);
  Warp<0, Points>(in, map, method, fill, out);
}

// Gives a map of the image's middle to the image's corner.
WarpMap AboutMiddle(ImageSize size, const std::array<double, 6>& m) {
  const double x = size.width * 0.5;
  const double y = size.height * 0.5;
  WarpMap map;
  map.m = {m[0], m[1], m[2] + (x - (m[0] * x + m[1] * y)),
           m[3], m[4], m[5] + (y - (m[3] * x + m[4] * y)),
           0,    0,    1};
  return map;
}

// Solves the eight equations of `rows`, the right side last in each, by elimination with the
// largest pivot; false when they have no single solution.
bool Solve(std::array<std::array<double, 9>, 8>& rows) {
  for (int i = 0; i < 8; ++i) {
    int pivot = i;
    for (int k = i + 1; k < 8; ++k) {
      if (std::fabs(rows[k][i]) > std::fabs(rows[pivot][i])) pivot = k;
    }
    // Corners on a line, as those of an image one pixel wide, leave a zero or next to nothing.
    if (std::fabs(rows[pivot][i]) < 1e-9) return false;
    std::swap(rows[i], rows[pivot]);
    for (int k = 0; k < 8; ++k) {
      if (k == i) continue;
      const double factor = rows[k][i] / rows[i][i];
      for (int j = i; j < 9; ++j) rows[k][j] -= factor * rows[i][j];
    }
  }
  return true;
}

}  // namespace

WarpMap AffineMap(ImageSize size, const AffineParameters& parameters) {
  const SinCos rotation = DeterministicSinCos(parameters.angle);
  const SinCos turned = DeterministicSinCos(parameters.angle - parameters.shear_y);
  const SinCos shear_x = DeterministicSinCos(parameters.shear_x);
  const double cos_y = DeterministicSinCos(parameters.shear_y).cos;
  const double tan_x = shear_x.sin / shear_x.cos;
  // The forward matrix without its scale, whose determinant is 1.
  const double a = turned.cos / cos_y;
  const double b = -(a * tan_x) - rotation.sin;
  const double c = turned.sin / cos_y;
  const double d = rotation.cos - c * tan_x;
  const double scale = parameters.scale;
  const std::array<double, 4> inverse = {d / scale, -b / scale, -c / scale, a / scale};
  const double x = parameters.shift_x;
  const double y = parameters.shift_y;
  return AboutMiddle(size, {inverse[0], inverse[1], -(inverse[0] * x + inverse[1] * y), inverse[2],
                            inverse[3], -(inverse[2] * x + inverse[3] * y)});
}

WarpMap RotationMap(ImageSize size, double degrees) { return AffineMap(size, {.angle = -degrees}); }

std::optional<WarpMap> PerspectiveMap(ImageSize size, const Corners& corners) {
  const double right = size.width - 1.0;
  const double bottom = size.height - 1.0;
  const Corners from = {{{0, 0}, {right, 0}, {right, bottom}, {0, bottom}}};
  std::array<std::array<double, 9>, 8> rows;
  for (int i = 0; i < 4; ++i) {
    const auto [x, y] = corners[i];
    const auto [u, v] = from[i];
    rows[2 * i] = {x, y, 1, 0, 0, 0, -u * x, -u * y, u};
    rows[2 * i + 1] = {0, 0, 0, x, y, 1, -v * x, -v * y, v};
  }
  if (!Solve(rows)) return std::nullopt;
  WarpMap map;
  for (int i = 0; i < 8; ++i) map.m[i] = rows[i][8] / rows[i][i];
  return map;
}

Corners RandomCorners(ImageSize size, double distortion, SampleRandom& random) {
  const int reach_x = static_cast<int>(distortion * (size.width / 2));
  const int reach_y = static_cast<int>(distortion * (size.height / 2));
  const auto move = [&](int reach) { return static_cast<int>(random.NextBelow(reach + 1)); };
  Corners corners;
  for (int i = 0; i < 4; ++i) {
    const bool right = i == 1 || i == 2;
    const bool bottom = i >= 2;
    corners[i][0] = (right ? size.width - 1 - reach_x : 0) + move(reach_x);
    corners[i][1] = (bottom ? size.height - 1 - reach_y : 0) + move(reach_y);
  }
  return corners;
}

void WarpImage(const ImageView& in, const WarpMap& map, WarpMethod method, const uint8_t* fill,
               const MutableImageView& out) {
  if (map.is_affine()) return WarpBy<RowPoints<true>>(in, map, method, fill, out);
  WarpBy<RowPoints<false>>(in, map, method, fill, out);
}

void WarpImage(const ImageView& in, const Displacement& displacement, WarpMethod method,
               const uint8_t* fill, const MutableImageView& out) {
  WarpBy<DisplacedPoints>(in, displacement, method, fill, out);
}

}  // namespace bulkhead

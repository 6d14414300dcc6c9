#include "server/image/geometry/geometry.h"

#include <algorithm>
#include <cmath>

namespace bulkhead {
namespace {

// Divisors below this are the horizon of a perspective.
constexpr double kHorizon = 1e-9;

// Parts of an edge whose ends are looked at.
constexpr double kMostEdgeParts = 64;

// The adjugate: the inverse up to a factor, which does not matter for projections.
std::array<double, 9> Adjugate(const std::array<double, 9>& m) {
  return {m[4] * m[8] - m[5] * m[7], m[2] * m[7] - m[1] * m[8], m[1] * m[5] - m[2] * m[4],
          m[5] * m[6] - m[3] * m[8], m[0] * m[8] - m[2] * m[6], m[2] * m[3] - m[0] * m[5],
          m[3] * m[7] - m[4] * m[6], m[1] * m[6] - m[0] * m[7], m[0] * m[4] - m[1] * m[3]};
}

void Include(ImagePoint point, PointMover::Hull& hull) {
  hull.low = {std::min(hull.low.x, point.x), std::min(hull.low.y, point.y)};
  hull.high = {std::max(hull.high.x, point.x), std::max(hull.high.y, point.y)};
}

}  // namespace

Geometry Geometry::Crop(ImageSize before, const Rect& rect) {
  return Place(before, {rect.height, rect.width}, -rect.top, -rect.left);
}

Geometry Geometry::Place(ImageSize before, ImageSize after, int top, int left) {
  return {.before = before, .after = after, .top = top, .left = left};
}

Geometry Geometry::Resize(ImageSize before, ImageSize after, std::optional<LegacyCenters> centers) {
  return {.kind = Kind::kResize, .before = before, .after = after, .centers = centers};
}

Geometry Geometry::FlipColumns(ImageSize size) {
  return {.kind = Kind::kFlipColumns, .before = size, .after = size};
}

Geometry Geometry::FlipRows(ImageSize size) {
  return {.kind = Kind::kFlipRows, .before = size, .after = size};
}

Geometry Geometry::Warp(ImageSize size, const WarpMap& map) {
  return {.kind = Kind::kWarp, .before = size, .after = size, .map = map};
}

Geometry Geometry::Displace(ImageSize size, const Displacement& displacement) {
  return {.kind = Kind::kDisplace, .before = size, .after = size, .displacement = displacement};
}

PointMover::PointMover(const Geometry& geometry) : geometry_(geometry) {
  if (geometry.kind == Geometry::Kind::kResize) {
    scale_x_ = static_cast<double>(geometry.after.width) / geometry.before.width;
    scale_y_ = static_cast<double>(geometry.after.height) / geometry.before.height;
  } else if (geometry.kind == Geometry::Kind::kWarp) {
    const std::array<double, 9>& m = geometry.map.m;
    forward_ = Adjugate(m);
    // Divisors near 1, so that small ones are the horizon and nothing else.
    const double determinant = m[0] * forward_[0] + m[1] * forward_[3] + m[2] * forward_[6];
    for (double& value : forward_) value /= determinant == 0 ? 1 : determinant;
  }
}

PointMover::Projected PointMover::Project(ImagePoint point) const {
  const std::array<double, 9>& f = forward_;
  return {f[0] * point.x + f[1] * point.y + f[2], f[3] * point.x + f[4] * point.y + f[5],
          f[6] * point.x + f[7] * point.y + f[8]};
}

ImagePoint PointMover::Move(ImagePoint point) const {
  switch (geometry_.kind) {
    case Geometry::Kind::kPlace:
      return {point.x + geometry_.left, point.y + geometry_.top};
    case Geometry::Kind::kResize:
      return {point.x * scale_x_, point.y * scale_y_};
    case Geometry::Kind::kFlipColumns:
      return {geometry_.before.width - point.x, point.y};
    case Geometry::Kind::kFlipRows:
      return {point.x, geometry_.before.height - point.y};
    case Geometry::Kind::kDisplace:
      return geometry_.displacement.Invert(point);
    case Geometry::Kind::kWarp:
      break;
  }
  const Projected at = Project(point);
  const double w = std::fabs(at.w) >= kHorizon ? at.w : at.w < 0 ? -kHorizon : kHorizon;
  return {at.x / w, at.y / w};
}

PointMover::Hull PointMover::MoveRect(ImagePoint low, ImagePoint high) const {
  if (geometry_.kind == Geometry::Kind::kWarp) return MoveByPerspective(low, high);
  if (geometry_.kind == Geometry::Kind::kDisplace) return MoveOutline(low, high);
  const ImagePoint a = Move(low);
  const ImagePoint b = Move(high);
  // Flips exchange the edges; those of a box that is inside out stay so.
  switch (geometry_.kind) {
    case Geometry::Kind::kFlipColumns:
      return {{b.x, a.y}, {a.x, b.y}};
    case Geometry::Kind::kFlipRows:
      return {{a.x, b.y}, {b.x, a.y}};
    default:
      return {a, b};
  }
}

PointMover::Hull PointMover::MoveByPerspective(ImagePoint low, ImagePoint high) const {
  const ImagePoint corners[4] = {low, {high.x, low.y}, high, {low.x, high.y}};
  int before_horizon = 0;
  int behind_horizon = 0;
  Hull hull = {Move(low), Move(low)};
  for (const ImagePoint& corner : corners) {
    const double w = Project(corner).w;
    before_horizon += w >= kHorizon;
    behind_horizon += w <= -kHorizon;
    Include(Move(corner), hull);
  }
  if (before_horizon == 4 || behind_horizon == 4) return hull;
  return {
      {0, 0},
      {static_cast<double>(geometry_.after.width), static_cast<double>(geometry_.after.height)}};
}

PointMover::Hull PointMover::MoveOutline(ImagePoint low, ImagePoint high) const {
  Hull hull = {Move(low), Move(low)};
  const auto include_edge = [&](ImagePoint from, ImagePoint to) {
    const double length = std::fabs(to.x - from.x) + std::fabs(to.y - from.y);
    const int parts = static_cast<int>(
        std::clamp(std::ceil(length / geometry_.displacement.spacing), 1.0, kMostEdgeParts));
    for (int i = 0; i <= parts; ++i) {
      const double share = static_cast<double>(i) / parts;
      Include(Move({from.x + share * (to.x - from.x), from.y + share * (to.y - from.y)}), hull);
    }
  };
  include_edge(low, {high.x, low.y});
  include_edge({low.x, high.y}, high);
  include_edge(low, {low.x, high.y});
  include_edge({high.x, low.y}, high);
  return hull;
}

}  // namespace bulkhead

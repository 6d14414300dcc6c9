#include "server/image/geometry/displacement.h"

#include <algorithm>
#include <limits>

namespace bulkhead {
namespace {

constexpr int kMostSteps = 50;
constexpr double kNear = 1.0 / 256;

// Where a coordinate lies between two of `nodes` nodes.
struct Between {
  int node;      // the lower one
  double share;  // of the upper one
};

Between Locate(double coordinate, int spacing, int nodes) {
  const double at = std::clamp(coordinate / spacing, 0.0, nodes - 1.0);
  const int node = std::min(static_cast<int>(at), nodes - 2);
  return {node, at - node};
}

}  // namespace

ImagePoint Displacement::At(ImagePoint point) const {
  const Between column = Locate(point.x, spacing, columns);
  const Between row = Locate(point.y, spacing, rows);
  const size_t upper = static_cast<size_t>(row.node) * columns + column.node;
  const size_t lower = upper + columns;
  const auto mean = [&](const float* plane) {
    const double above = plane[upper] + column.share * (double{plane[upper + 1]} - plane[upper]);
    const double below = plane[lower] + column.share * (double{plane[lower + 1]} - plane[lower]);
    return above + row.share * (below - above);
  };
  return {mean(x), mean(y)};
}

ImagePoint Displacement::Invert(ImagePoint source) const {
  ImagePoint point = source;
  ImagePoint nearest = source;
  double least = std::numeric_limits<double>::infinity();
  for (int step = 0; step < kMostSteps && least > kNear * kNear; ++step) {
    const ImagePoint moved = At(point);
    const ImagePoint miss = {source.x - (point.x + moved.x), source.y - (point.y + moved.y)};
    const double distance = miss.x * miss.x + miss.y * miss.y;
    if (distance < least) {
      least = distance;
      nearest = point;
    }
    point = {point.x + miss.x, point.y + miss.y};
  }
  return nearest;
}

}  // namespace bulkhead

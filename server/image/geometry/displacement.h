#pragma once

#include <cstddef>

#include "server/image/geometry/point.h"

namespace bulkhead {

// The source of each point of a bent image: the point p of the result is the point p + At(p) of the
// input. Given at the nodes of a square lattice, linear between four nodes, and constant beyond the
// lattice's edge. A view of the nodes.
struct Displacement {
  int spacing = 1;  // pixels from node to node; node (0, 0) is the image's upper left corner
  int rows = 2;     // of nodes; at least 2
  int columns = 2;
  const float* x = nullptr;  // pixels, rows × columns
  const float* y = nullptr;

  // Nodes along a side of `extent` pixels.
  static int NodesAlong(int extent, int spacing) { return (extent + spacing - 1) / spacing + 1; }

  ImagePoint At(ImagePoint point) const;

  // The point of the result that comes from `source`, by fixed-point iteration: as exact as 1/256
  // pixel where At changes by less than a pixel from one pixel to the next. Where the image is
  // folded over itself, several points may fit, or none: then the nearest one that was found.
  ImagePoint Invert(ImagePoint source) const;
};

}  // namespace bulkhead

#ifndef BULKHEAD_SERVER_IMAGE_GEOMETRY_DISPLACEMENT_H_
#define BULKHEAD_SERVER_IMAGE_GEOMETRY_DISPLACEMENT_H_

#include <cstddef>

#include "server/image/geometry/point.h"

namespace bulkhead {

// Where each point of a bent image comes from: the point p of the result is the point p + At(p) of
// the input. Known at the nodes of a lattice of squares, linear between four of them, and beyond
// the lattice as at its edge. A view of the nodes.
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
  // folded over itself several points may do, or none: then the one that came nearest.
  ImagePoint Invert(ImagePoint source) const;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_IMAGE_GEOMETRY_DISPLACEMENT_H_

#pragma once

namespace bulkhead {

// A point of an image in pixels from its upper left corner: the pixel in column x has its left edge
// at x and its middle at x + 0.5.
struct ImagePoint {
  double x = 0;
  double y = 0;
};

}  // namespace bulkhead

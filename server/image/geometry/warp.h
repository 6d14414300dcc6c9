#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "server/base/random.h"
#include "server/image/geometry/displacement.h"
#include "server/image/image.h"

namespace bulkhead {

// The source of each pixel of a warped image: the point (x, y) of the result is the point ((m0·x +
// m1·y + m2) / w, (m3·x + m4·y + m5) / w) with w = m6·x + m7·y + m8 of the input. Points count from
// the image's upper left corner, so that a pixel's middle is at (column + 0.5, row + 0.5).
struct WarpMap {
  std::array<double, 9> m = {1, 0, 0, 0, 1, 0, 0, 0, 1};

  bool is_affine() const { return m[6] == 0 && m[7] == 0 && m[8] == 1; }
};

// The parameters of torchvision's affine(): a clockwise rotation, then a shift, a scale and shears,
// all about the image's middle. Angles in degrees.
struct AffineParameters {
  double angle = 0;
  double shift_x = 0;
  double shift_y = 0;
  double scale = 1;  // > 0
  double shear_x = 0;
  double shear_y = 0;
};
WarpMap AffineMap(ImageSize size, const AffineParameters& parameters);

// A rotation about the middle, counter-clockwise as torchvision's rotate().
WarpMap RotationMap(ImageSize size, double degrees);

// Columns and rows of the corners upper left, upper right, lower right, lower left.
using Corners = std::array<std::array<double, 2>, 4>;

// The map that moves the corners of an image to `corners`, as torchvision's perspective(); absent
// if there is no such map (they lie on a line).
std::optional<WarpMap> PerspectiveMap(ImageSize size, const Corners& corners);

// Corners as torchvision's RandomPerspective.get_params draws them: each moves inwards by 0 to
// distortion · half of the side, whole pixels. Draws, which are part of the data format: column and
// row of each corner in their order, by NextBelow.
Corners RandomCorners(ImageSize size, double distortion, SampleRandom& random);

enum class WarpMethod {
  kNearest,  // the pixel that the point lies in
  kLinear,   // the four pixels whose middles are next to it, weighted in steps of 1/2048
};

// Warps `in` into `out`, of the same size and channels (any number); they must not overlap. A pixel
// from outside the image is `fill`, one value a channel; so are, for kLinear, those of the four
// that lie outside.
void WarpImage(const ImageView& in, const WarpMap& map, WarpMethod method, const uint8_t* fill,
               const MutableImageView& out);
void WarpImage(const ImageView& in, const Displacement& displacement, WarpMethod method,
               const uint8_t* fill, const MutableImageView& out);

}  // namespace bulkhead

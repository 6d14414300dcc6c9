#pragma once

#include <cstddef>

#include "server/base/limits.h"
#include "server/image/boxes/boxes.h"
#include "server/image/geometry/pad.h"
#include "server/image/image.h"

namespace bulkhead {

// The place of one image in a mosaic. `part`: the image's own part of the canvas, which has its
// pixels and, where it has none, the fill. `top` and `left`: its upper left corner in the canvas,
// which may be outside.
struct MosaicTile {
  Rect part;
  int top = 0;
  int left = 0;

  // The part of the canvas that the image's pixels cover; may be empty.
  Rect Covered(ImageSize image) const;
};

// Tile 0 … 3 (top left, top right, bottom left, bottom right) of four images that meet at the point
// (y, x) of the canvas, 0 ≤ y ≤ height and 0 ≤ x ≤ width: each touches it with its corner, as in
// YOLO's mosaics. The parts of the four together are the canvas.
MosaicTile TileAt(int tile, int y, int x, ImageSize image, ImageSize canvas);

// An image alone in the middle of the canvas; an odd rest goes to the bottom and right.
MosaicTile TileAlone(ImageSize image, ImageSize canvas);

// Writes the tile's part of `canvas`, of the same channels as `image`, and nothing else.
void DrawTile(const ImageView& image, const MosaicTile& tile, const PixelFill& fill,
              const MutableImageView& canvas);

// Moves `count` boxes of `image` into the canvas, cut at the image's part, since they would
// otherwise reach into another image. visible_out[row] becomes the share of the moved box that is
// left, times visible_in[row] (null: 1).
void MoveBoxesIntoTile(ImageSize image, const MosaicTile& tile, ImageSize canvas,
                       const BoxCoding& coding, const std::byte* in, const float* visible_in,
                       size_t count, std::byte* out, float* visible_out);

// The same for `count` points; they are not cut.
void MovePointsIntoTile(ImageSize image, const MosaicTile& tile, ImageSize canvas, bool relative,
                        const std::byte* in, size_t count, std::byte* out);

}  // namespace bulkhead

#include "server/image/boxes/mosaic.h"

#include <algorithm>

#include "server/image/geometry/geometry.h"

namespace bulkhead {

Rect MosaicTile::Covered(ImageSize image) const {
  const int first_row = std::clamp(top, part.top, part.bottom());
  const int first_column = std::clamp(left, part.left, part.right());
  const int end_row = std::clamp(top + image.height, part.top, part.bottom());
  const int end_column = std::clamp(left + image.width, part.left, part.right());
  return {first_row, first_column, end_row - first_row, end_column - first_column};
}

MosaicTile TileAt(int tile, int y, int x, ImageSize image, ImageSize canvas) {
  const bool bottom = tile >= 2;
  const bool right = tile % 2 == 1;
  MosaicTile made;
  made.part = {bottom ? y : 0, right ? x : 0, bottom ? canvas.height - y : y,
               right ? canvas.width - x : x};
  made.top = bottom ? y : y - image.height;
  made.left = right ? x : x - image.width;
  return made;
}

MosaicTile TileAlone(ImageSize image, ImageSize canvas) {
  return {WholeImage(canvas), (canvas.height - image.height) / 2, (canvas.width - image.width) / 2};
}

void DrawTile(const ImageView& image, const MosaicTile& tile, const PixelFill& fill,
              const MutableImageView& canvas) {
  if (tile.part.height == 0 || tile.part.width == 0) return;
  PlaceImage(image, tile.top - tile.part.top, tile.left - tile.part.left, fill,
             canvas.Crop(tile.part));
}

void MoveBoxesIntoTile(ImageSize image, const MosaicTile& tile, ImageSize canvas,
                       const BoxCoding& coding, const std::byte* in, const float* visible_in,
                       size_t count, std::byte* out, float* visible_out) {
  const Rect covered = tile.Covered(image);
  const Box edges = {static_cast<double>(covered.left), static_cast<double>(covered.top),
                     static_cast<double>(covered.right()), static_cast<double>(covered.bottom())};
  for (size_t i = 0; i < count; ++i) {
    const Box box = ReadBox(in + i * kBoxBytes, coding, image);
    const Box moved = {box.left + tile.left, box.top + tile.top, box.right + tile.left,
                       box.bottom + tile.top};
    const Box cut = Clamp(moved, edges);
    const double whole = moved.area();
    const double share = whole > 0 ? cut.area() / whole : 1;
    visible_out[i] = visible_in == nullptr ? static_cast<float>(share)
                                           : static_cast<float>(visible_in[i] * share);
    WriteBox(cut, coding, canvas, out + i * kBoxBytes);
  }
}

void MovePointsIntoTile(ImageSize image, const MosaicTile& tile, ImageSize canvas, bool relative,
                        const std::byte* in, size_t count, std::byte* out) {
  MovePoints(Geometry::Place(image, canvas, tile.top, tile.left), relative, in, count, out);
}

}  // namespace bulkhead

#include "server/image/boxes/move_mask.h"

#include <vector>

#include "server/base/error.h"
#include "server/image/geometry/flip.h"
#include "server/image/geometry/pad.h"
#include "server/image/resize/resize.h"

namespace bulkhead {
namespace {

bool IsCut(const Geometry& geometry) {
  return geometry.top <= 0 && geometry.left <= 0 &&
         geometry.after.height - geometry.top <= geometry.before.height &&
         geometry.after.width - geometry.left <= geometry.before.width;
}

}  // namespace

absl::StatusOr<MovedMask> MoveMask(const Geometry& geometry, uint8_t fill,
                                   const MutableImageView& mask, ScratchBuffer& memory,
                                   ScratchBuffer& row) {
  const ImageSize after = geometry.after;
  if (geometry.kind == Geometry::Kind::kFlipColumns) {
    FlipHorizontallyInPlace(mask, row);
    return MovedMask{mask};
  }
  if (geometry.kind == Geometry::Kind::kFlipRows) {
    FlipVerticallyInPlace(mask, row);
    return MovedMask{mask};
  }
  if (geometry.kind == Geometry::Kind::kPlace && IsCut(geometry)) {
    return MovedMask{mask.Crop({-geometry.top, -geometry.left, after.height, after.width})};
  }
  const size_t size_bytes = static_cast<size_t>(after.height) * after.width * mask.channels;
  const MutableImageView out = ContiguousImage(memory.Resize(size_bytes), after, mask.channels);
  if (geometry.kind == Geometry::Kind::kPlace) {
    PlaceImage(mask, geometry.top, geometry.left, {fill}, out);
  } else if (geometry.kind == Geometry::Kind::kWarp) {
    const std::vector<uint8_t> pixel(mask.channels, fill);
    WarpImage(mask, geometry.map, WarpMethod::kNearest, pixel.data(), out);
  } else if (geometry.kind == Geometry::Kind::kDisplace) {
    const std::vector<uint8_t> pixel(mask.channels, fill);
    WarpImage(mask, geometry.displacement, WarpMethod::kNearest, pixel.data(), out);
  } else if (geometry.centers.has_value()) {
    LegacyResizeNearest(mask, *geometry.centers, out, row);
  } else {
    BULKHEAD_RETURN_IF_ERROR(ResizeImage(mask, ResizeMethod::kNearest, out));
  }
  return MovedMask{out, true};
}

}  // namespace bulkhead

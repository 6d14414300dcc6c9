#include "server/pipeline/follow.h"

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/image/boxes/boxes.h"
#include "server/image/boxes/move_mask.h"
#include "server/stages/running/common_options.h"

namespace bulkhead {
namespace {

void FollowWithCoordinates(const Geometry& geometry, const Annotation& annotation, Value& value,
                           FollowerMemory& memory) {
  auto* out = reinterpret_cast<std::byte*>(memory.Free().Resize(value.size_bytes));
  memory.TakeFree();
  if (annotation.kind == Annotation::Kind::kBoxes) {
    const size_t count = value.size_bytes / kBoxBytes;
    MoveBoxes(geometry, CodingOf(annotation), value.data, count, out, value.visible);
  } else {
    const size_t count = value.size_bytes / (2 * sizeof(float));
    MovePoints(geometry, annotation.relative, value.data, count, out);
  }
  value.data = out;
}

absl::Status FollowWithPixels(const Geometry& geometry, uint32_t fill, Value& value,
                              FollowerMemory& memory) {
  const ImageSize size = value.pixels.size();
  if (size != geometry.before) {
    return SampleError(reason::kImageSizesDiffer,
                       absl::StrCat("the mask has ", size.height, " x ", size.width,
                                    " pixels (height x width), but its image ",
                                    geometry.before.height, " x ", geometry.before.width));
  }
  BULKHEAD_ASSIGN_OR_RETURN(
      const MovedMask moved,
      MoveMask(geometry, static_cast<uint8_t>(fill), value.pixels, memory.Free(), memory.row));
  if (moved.in_memory) memory.TakeFree();
  value.SetPixels(moved.view);
  return absl::OkStatus();
}

}  // namespace

absl::Status Follow(const GeometryTrail& trail, const Annotation& annotation, Value& value,
                    FollowerMemory& memory) {
  for (const Geometry& geometry : trail) {
    if (annotation.kind == Annotation::Kind::kMask) {
      BULKHEAD_RETURN_IF_ERROR(FollowWithPixels(geometry, annotation.fill, value, memory));
    } else {
      FollowWithCoordinates(geometry, annotation, value, memory);
    }
    value.canvas = geometry.after;
  }
  return absl::OkStatus();
}

}  // namespace bulkhead

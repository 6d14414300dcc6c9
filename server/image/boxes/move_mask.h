#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/image/geometry/geometry.h"
#include "server/image/image.h"

namespace bulkhead {

struct MovedMask {
  MutableImageView view;
  bool in_memory = false;  // false: it is the mask, changed in place, or a part of it
};

// Moves the pixels of `mask`, of geometry.before's size, like those of its image: takes the nearest
// pixel, or `fill` where the image had none. The result may be in `memory`, where `mask` is not;
// `row` is scratch for one row. Errors: INTERNAL.
absl::StatusOr<MovedMask> MoveMask(const Geometry& geometry, uint8_t fill,
                                   const MutableImageView& mask, ScratchBuffer& memory,
                                   ScratchBuffer& row);

}  // namespace bulkhead

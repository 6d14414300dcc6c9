#pragma once

#include <cstddef>

#include "server/image/geometry/geometry.h"
#include "server/image/image.h"

namespace bulkhead {

// A rectangle in pixels from the image's upper left corner; `right` and `bottom` are where the next
// pixel begins, so that the whole image is [0, 0, width, height].
struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;

  double width() const { return right - left; }
  double height() const { return bottom - top; }
  // 0 for a box that is empty or inside out.
  double area() const;
};

// The box cut at `canvas`; if it lies outside, an empty box at the edge.
Box Clamp(const Box& box, const Box& canvas);

// Intersection over union; 0 where both are empty. As torchvision.ops.box_iou.
double Overlap(const Box& a, const Box& b);

enum class BoxFormat { kXyxy, kXywh, kCxcywh };

// How a row of four float32 numbers describes a box.
struct BoxCoding {
  BoxFormat format = BoxFormat::kXyxy;
  bool relative = false;  // shares of the canvas's width and height
};

constexpr size_t kBoxNumbers = 4;
constexpr size_t kBoxBytes = kBoxNumbers * sizeof(float);

// Rows need no alignment. Computed in double; written as the nearest float32.
Box ReadBox(const std::byte* row, const BoxCoding& coding, ImageSize canvas);
void WriteBox(const Box& box, const BoxCoding& coding, ImageSize canvas, std::byte* row);

// Moves `count` boxes of the image before `geometry` into the image after it, `in` and `out` may
// be the same. If pixels may leave the canvas, boxes are cut at its edges, and visible[row] (null:
// not wanted) is multiplied by the share of the moved box that is left. A rotated or bent box
// becomes the upright box around it.
void MoveBoxes(const Geometry& geometry, const BoxCoding& coding, const std::byte* in, size_t count,
               std::byte* out, float* visible);

// The same for `count` points, pairs x, y; they are not cut.
void MovePoints(const Geometry& geometry, bool relative, const std::byte* in, size_t count,
                std::byte* out);

}  // namespace bulkhead

#include "server/image/boxes/boxes.h"

#include <algorithm>
#include <cstring>

namespace bulkhead {
namespace {

struct Scale {
  double x = 1;
  double y = 1;
};

// Pixels of one unit.
Scale UnitOf(bool relative, ImageSize canvas) {
  if (!relative) return {};
  return {static_cast<double>(canvas.width), static_cast<double>(canvas.height)};
}

void Load(const std::byte* row, double* numbers, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    float number;
    std::memcpy(&number, row + i * sizeof(float), sizeof(float));
    numbers[i] = number;
  }
}

void Store(const double* numbers, size_t count, std::byte* row) {
  for (size_t i = 0; i < count; ++i) {
    const auto number = static_cast<float>(numbers[i]);
    std::memcpy(row + i * sizeof(float), &number, sizeof(float));
  }
}

}  // namespace

double Box::area() const { return width() > 0 && height() > 0 ? width() * height() : 0; }

Box Clamp(const Box& box, const Box& canvas) {
  const auto x = [&](double value) { return std::min(std::max(value, canvas.left), canvas.right); };
  const auto y = [&](double value) { return std::min(std::max(value, canvas.top), canvas.bottom); };
  return {x(box.left), y(box.top), x(box.right), y(box.bottom)};
}

double Overlap(const Box& a, const Box& b) {
  const Box both = {std::max(a.left, b.left), std::max(a.top, b.top), std::min(a.right, b.right),
                    std::min(a.bottom, b.bottom)};
  const double intersection = both.area();
  const double all = a.area() + b.area() - intersection;
  return all > 0 ? intersection / all : 0;
}

Box ReadBox(const std::byte* row, const BoxCoding& coding, ImageSize canvas) {
  double n[kBoxNumbers];
  Load(row, n, kBoxNumbers);
  const Scale unit = UnitOf(coding.relative, canvas);
  n[0] *= unit.x;
  n[1] *= unit.y;
  n[2] *= unit.x;
  n[3] *= unit.y;
  switch (coding.format) {
    case BoxFormat::kXyxy:
      break;
    case BoxFormat::kXywh:
      return {n[0], n[1], n[0] + n[2], n[1] + n[3]};
    case BoxFormat::kCxcywh:
      return {n[0] - n[2] * 0.5, n[1] - n[3] * 0.5, n[0] + n[2] * 0.5, n[1] + n[3] * 0.5};
  }
  return {n[0], n[1], n[2], n[3]};
}

void WriteBox(const Box& box, const BoxCoding& coding, ImageSize canvas, std::byte* row) {
  double n[kBoxNumbers] = {box.left, box.top, box.right, box.bottom};
  if (coding.format != BoxFormat::kXyxy) {
    n[2] = box.width();
    n[3] = box.height();
  }
  if (coding.format == BoxFormat::kCxcywh) {
    n[0] = (box.left + box.right) * 0.5;
    n[1] = (box.top + box.bottom) * 0.5;
  }
  const Scale unit = UnitOf(coding.relative, canvas);
  n[0] /= unit.x;
  n[1] /= unit.y;
  n[2] /= unit.x;
  n[3] /= unit.y;
  Store(n, kBoxNumbers, row);
}

void MoveBoxes(const Geometry& geometry, const BoxCoding& coding, const std::byte* in, size_t count,
               std::byte* out, float* visible) {
  const PointMover mover(geometry);
  const Box canvas = {0, 0, static_cast<double>(geometry.after.width),
                      static_cast<double>(geometry.after.height)};
  for (size_t i = 0; i < count; ++i) {
    const Box box = ReadBox(in + i * kBoxBytes, coding, geometry.before);
    const PointMover::Hull hull = mover.MoveRect({box.left, box.top}, {box.right, box.bottom});
    Box moved = {hull.low.x, hull.low.y, hull.high.x, hull.high.y};
    if (geometry.cuts()) {
      const double whole = moved.area();
      moved = Clamp(moved, canvas);
      if (visible != nullptr && whole > 0) {
        visible[i] = static_cast<float>(visible[i] * (moved.area() / whole));
      }
    }
    WriteBox(moved, coding, geometry.after, out + i * kBoxBytes);
  }
}

void MovePoints(const Geometry& geometry, bool relative, const std::byte* in, size_t count,
                std::byte* out) {
  constexpr size_t kRowBytes = 2 * sizeof(float);
  const PointMover mover(geometry);
  const Scale before = UnitOf(relative, geometry.before);
  const Scale after = UnitOf(relative, geometry.after);
  for (size_t i = 0; i < count; ++i) {
    double n[2];
    Load(in + i * kRowBytes, n, 2);
    const ImagePoint moved = mover.Move({n[0] * before.x, n[1] * before.y});
    n[0] = moved.x / after.x;
    n[1] = moved.y / after.y;
    Store(n, 2, out + i * kRowBytes);
  }
}

}  // namespace bulkhead

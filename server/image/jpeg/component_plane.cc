#include "server/image/jpeg/component_plane.h"

#include <cstring>

#include "server/image/jpeg/upsample.h"

namespace bulkhead::jpeg {
void ComponentPlane::Reshape(int width, int height) {
  width_ = width;
  height_ = height;
  stride_ = (width + 2 * kRowPadding + 63) / 64 * 64;
  origin_ = buffer_.Resize(static_cast<size_t>(stride_) * (height + 2)) + stride_ + kRowPadding;
}

void ComponentPlane::CopyRow(int from, int to) {
  std::memcpy(row(to) - 1, row(from) - 1, static_cast<size_t>(width_) + 2);
}

void ComponentPlane::RepeatLeft() {
  for (int y = 0; y < height_; ++y) row(y)[-1] = row(y)[0];
}

void ComponentPlane::RepeatRight(int column) {
  for (int y = 0; y < height_; ++y) row(y)[column] = row(y)[column - 1];
}

}  // namespace bulkhead::jpeg

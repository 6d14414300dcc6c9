#pragma once

#include <cstddef>
#include <cstdint>

#include "server/image/image.h"

namespace bulkhead::jpeg {

// The samples of one component in one band of MCUs, some columns of it; and around them what
// upsampling asks for: the last row of the band before as row -1, one row behind the last, a sample
// to the left and one to the right, and kRowPadding bytes that may be read or written in passing.
// Reused from file to file. Not thread-safe.
class ComponentPlane {
 public:
  // Makes room for `width` × `height` samples. Invalidates rows.
  void Reshape(int width, int height);

  // From row -1 to row `height`; the sample of column 0.
  uint8_t* row(int y) { return origin_ + y * stride_; }
  ptrdiff_t stride() const { return stride_; }

  // Makes row `to` a copy of row `from`, with what stands beside them.
  void CopyRow(int from, int to);
  // In rows 0 … height - 1, makes the sample left of column 0 a copy of it.
  void RepeatLeft();
  // In the same rows, makes the sample at `column` a copy of that before it.
  void RepeatRight(int column);

 private:
  ScratchBuffer buffer_;
  uint8_t* origin_ = nullptr;
  ptrdiff_t stride_ = 0;
  int width_ = 0;
  int height_ = 0;
};

}  // namespace bulkhead::jpeg

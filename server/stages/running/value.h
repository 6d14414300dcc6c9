#pragma once

#include <cstddef>
#include <cstdint>

#include "bulkhead/v1/types.pb.h"
#include "server/base/file_bytes.h"
#include "server/image/image.h"

namespace bulkhead {

// One feature of one sample between stages: a view of memory that belongs to the source's
// ReadContext, to a stage's scratch or to the batch. A plain value.
struct Value {
  enum class Form {
    kEncoded,   // a byte string
    kPixels,    // a uint8 image, channels last, any stride, in memory that stages may change
    kElements,  // contiguous elements of `dtype`, not necessarily aligned
  };
  Form form = Form::kEncoded;
  v1::DType dtype = v1::DTYPE_BYTES;

  MutableImageView pixels;  // kPixels

  const std::byte* data = nullptr;  // kEncoded, kElements
  size_t size_bytes = 0;
  // kEncoded, for a stage that TakesUnread: `data` is null, and this reads the bytes. Else null.
  FileBytes* unread = nullptr;

  // Images of either form.
  bool is_image = false;
  ImageSize image_size;
  int channels = 0;
  bool channels_first = false;
  // The number of images of image_size that are stacked in kElements; 0: not a stack.
  int stacked = 0;

  // Extent of the first dimension of a variable feature; 1 for all others.
  int64_t count = 1;

  // kEncoded: which frame it is, of all sources, if neighbouring samples have it too; 0: they have
  // not.
  uint64_t frame = 0;

  // For declared boxes, points and masks: their image's size and, for boxes, the share of each
  // box's area that is left (null: all of it).
  ImageSize canvas;
  float* visible = nullptr;

  // Elements that this value has.
  size_t element_count() const;
  // The bytes that it points to, without gaps between rows of pixels and without `visible`.
  size_t plain_bytes() const;
  // The count of numbers that `visible` points to.
  size_t visible_count() const;

  // Makes this a uint8 image with its channels last.
  void SetPixels(const MutableImageView& image);
  // Replaces the elements, which now have `new_dtype`; image extents and count stay. A uint8 image
  // with channels last becomes kPixels. `visible` is dropped if the size differs.
  void SetElements(v1::DType new_dtype, std::byte* elements, size_t elements_bytes);
};

}  // namespace bulkhead

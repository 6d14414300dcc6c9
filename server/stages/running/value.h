#ifndef BULKHEAD_SERVER_STAGES_RUNNING_VALUE_H_
#define BULKHEAD_SERVER_STAGES_RUNNING_VALUE_H_

#include <cstddef>
#include <cstdint>

#include "bulkhead/v1/types.pb.h"
#include "server/image/image.h"

namespace bulkhead {

// One feature of one sample on its way through the stages: a view of memory that belongs to the
// source's ReadContext, to a stage's scratch or to the batch. A plain value.
struct Value {
  enum class Form {
    kEncoded,   // a byte string
    kPixels,    // a uint8 image with its channels last, any stride; the memory is ours to change
    kElements,  // contiguous elements of `dtype`, not necessarily aligned
  };
  Form form = Form::kEncoded;
  v1::DType dtype = v1::DTYPE_BYTES;

  MutableImageView pixels;  // kPixels

  const std::byte* data = nullptr;  // kEncoded, kElements
  size_t size_bytes = 0;

  // Images of either form.
  bool is_image = false;
  ImageSize image_size;
  int channels = 0;
  bool channels_first = false;
  // Images that lie behind each other in kElements, all of image_size; 0: this is no stack of them.
  int stacked = 0;

  // Extent of the first dimension of a variable feature; 1 for all others.
  int64_t count = 1;

  // Of what was declared to belong to an image: that image's size, and of boxes the share of each
  // one's area that is left in the image (null: of all of it).
  ImageSize canvas;
  float* visible = nullptr;

  // Elements that this value has.
  size_t element_count() const;
  // Bytes of all that it points to without gaps between rows of pixels; `visible` left out.
  size_t plain_bytes() const;
  // Numbers that `visible` points to.
  size_t visible_count() const;

  // Makes this a uint8 image with its channels last.
  void SetPixels(const MutableImageView& image);
  // Replaces the elements, which have `new_dtype` now; image extents and count stay. An image of
  // uint8 with its channels last becomes kPixels. `visible` goes where their size is another.
  void SetElements(v1::DType new_dtype, std::byte* elements, size_t elements_bytes);
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_STAGES_RUNNING_VALUE_H_

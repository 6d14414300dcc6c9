#include "server/stages/running/value.h"

#include "server/base/element_type.h"
#include "server/image/boxes/boxes.h"

namespace bulkhead {

size_t Value::element_count() const {
  if (form == Form::kPixels) return pixels.row_bytes() * pixels.height;
  return form == Form::kEncoded ? 1 : size_bytes / ElementBytes(dtype);
}

size_t Value::plain_bytes() const {
  if (form != Form::kPixels) return size_bytes;
  return pixels.row_bytes() * static_cast<size_t>(pixels.height);
}

size_t Value::visible_count() const { return visible == nullptr ? 0 : size_bytes / kBoxBytes; }

void Value::SetPixels(const MutableImageView& image) {
  form = Form::kPixels;
  dtype = v1::DTYPE_UINT8;
  pixels = image;
  data = nullptr;
  unread = nullptr;
  size_bytes = 0;
  is_image = true;
  image_size = image.size();
  channels = image.channels;
  channels_first = false;
}

void Value::SetElements(v1::DType new_dtype, std::byte* elements, size_t elements_bytes) {
  if (is_image && new_dtype == v1::DTYPE_UINT8 && !channels_first) {
    SetPixels(ContiguousImage(reinterpret_cast<uint8_t*>(elements), image_size, channels));
    return;
  }
  // Numbers of another size are not boxes any more, so their shares are dropped.
  if (elements_bytes != size_bytes) visible = nullptr;
  form = Form::kElements;
  dtype = new_dtype;
  data = elements;
  unread = nullptr;
  size_bytes = elements_bytes;
}

}  // namespace bulkhead

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace bulkhead {

// Height and width in pixels.
struct ImageSize {
  int height = 0;
  int width = 0;

  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

// A rectangle of whole pixels inside an image.
struct Rect {
  int top = 0;
  int left = 0;
  int height = 0;
  int width = 0;

  int bottom() const { return top + height; }
  int right() const { return left + width; }
  friend bool operator==(const Rect&, const Rect&) = default;
};

// A rectangle that covers an image of `size`.
inline Rect WholeImage(ImageSize size) { return {0, 0, size.height, size.width}; }

// A uint8 image owned by other code: rows of `width` × `channels` interleaved bytes, `stride`
// bytes from row to row. A plain value.
template <typename Byte>
struct BasicImageView {
  Byte* data = nullptr;
  int height = 0;
  int width = 0;
  int channels = 0;
  size_t stride = 0;

  ImageSize size() const { return {height, width}; }
  size_t row_bytes() const { return static_cast<size_t>(width) * channels; }
  Byte* row(int y) const { return data + y * stride; }

  // The part of this image under `rect`, which must lie inside; no pixel is copied.
  BasicImageView Crop(const Rect& rect) const {
    return {row(rect.top) + static_cast<size_t>(rect.left) * channels, rect.height, rect.width,
            channels, stride};
  }

  operator BasicImageView<const Byte>() const { return {data, height, width, channels, stride}; }
};
using ImageView = BasicImageView<const uint8_t>;
using MutableImageView = BasicImageView<uint8_t>;

// A contiguous image in memory laid out for `data`.
inline MutableImageView ContiguousImage(uint8_t* data, ImageSize size, int channels) {
  return {data, size.height, size.width, channels, static_cast<size_t>(size.width) * channels};
}

// Memory for scratch images and tensors, reused from sample to sample: it grows to the largest need
// and allocates nothing in the steady state. After an exceptionally large sample it is freed, so
// that one huge photo does not count against the worker's quota forever. Not thread-safe.
class ScratchBuffer {
 public:
  // At least `size_bytes` of uninitialised memory, aligned to 64 bytes; earlier contents and
  // pointers are invalid. Throws std::bad_alloc.
  uint8_t* Resize(size_t size_bytes);

 private:
  struct Free {
    void operator()(uint8_t* memory) const;
  };
  std::unique_ptr<uint8_t, Free> memory_;
  size_t capacity_bytes_ = 0;
};

// An image that owns its pixels; a reusable buffer. Not thread-safe.
class Image {
 public:
  // Makes this an uninitialised contiguous image and returns it. Invalidates earlier views.
  MutableImageView Reshape(ImageSize size, int channels);

  // Gives its memory back. Invalidates earlier views.
  void Release();

  MutableImageView mutable_view() { return view_; }
  ImageView view() const { return view_; }

 private:
  ScratchBuffer buffer_;
  MutableImageView view_;
};

}  // namespace bulkhead

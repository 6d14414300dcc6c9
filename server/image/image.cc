#include "server/image/image.h"

#include <new>

namespace bulkhead {
namespace {

constexpr std::align_val_t kAlignment{64};
// Buffers above this size are given back when a sample needs less than a quarter of them.
constexpr size_t kKeepBytes = size_t{8} << 20;

}  // namespace

void ScratchBuffer::Free::operator()(uint8_t* memory) const {
  ::operator delete(memory, kAlignment);
}

uint8_t* ScratchBuffer::Resize(size_t size_bytes) {
  const bool too_large = capacity_bytes_ > kKeepBytes && size_bytes < capacity_bytes_ / 4;
  if (size_bytes > capacity_bytes_ || too_large || memory_ == nullptr) {
    memory_.reset();
    capacity_bytes_ = 0;
    // Grown by a quarter more than asked for: sizes of photos vary, allocations should end early.
    const size_t wanted_bytes = size_bytes + size_bytes / 4 + 64;
    memory_.reset(static_cast<uint8_t*>(::operator new(wanted_bytes, kAlignment)));
    capacity_bytes_ = wanted_bytes;
  }
  return memory_.get();
}

void Image::Release() {
  buffer_ = ScratchBuffer();
  view_ = MutableImageView();
}

MutableImageView Image::Reshape(ImageSize size, int channels) {
  const size_t size_bytes = static_cast<size_t>(size.height) * size.width * channels;
  view_ = ContiguousImage(buffer_.Resize(size_bytes), size, channels);
  return view_;
}

}  // namespace bulkhead

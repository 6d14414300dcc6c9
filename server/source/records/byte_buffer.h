#pragma once

#include <cstddef>
#include <memory>

namespace bulkhead {

// Scratch memory that is reused from record to record: grows to what is asked for, never zeroes,
// and gives a rare giant's memory back at the next ordinary request. Not thread-safe.
class ByteBuffer {
 public:
  // `size` bytes of any content; the previous content is gone. Never null. May throw
  // std::bad_alloc.
  char* Reserve(size_t size) {
    const bool oversized = capacity_ > kKeepBytes && size < capacity_ / 8;
    if (size > capacity_ || oversized || data_ == nullptr) {
      data_.reset();  // before the new block is asked for: both need not fit at once
      capacity_ = 0;
      const size_t wanted = size + size / 4 + 64;
      data_.reset(new char[wanted]);
      capacity_ = wanted;
    }
    return data_.get();
  }

  // What was reserved last.
  const char* data() const { return data_.get(); }

 private:
  static constexpr size_t kKeepBytes = size_t{16} << 20;

  std::unique_ptr<char[]> data_;
  size_t capacity_ = 0;
};

}  // namespace bulkhead

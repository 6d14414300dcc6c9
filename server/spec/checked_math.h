#pragma once

#include <cstdint>
#include <limits>

namespace bulkhead {

// A count of bytes or elements that remembers whether any step of its computation overflowed,
// because a spec's numbers are untrusted. A value type.
class CheckedCount {
 public:
  constexpr CheckedCount(uint64_t value) : value_(value) {}  // NOLINT: a number is a count

  constexpr CheckedCount operator*(CheckedCount other) const {
    CheckedCount result(0);
    result.overflowed_ = __builtin_mul_overflow(value_, other.value_, &result.value_) ||
                         overflowed_ || other.overflowed_;
    return result;
  }
  constexpr CheckedCount operator+(CheckedCount other) const {
    CheckedCount result(0);
    result.overflowed_ = __builtin_add_overflow(value_, other.value_, &result.value_) ||
                         overflowed_ || other.overflowed_;
    return result;
  }
  // The number of elements of a shape, whose extents are known.
  template <typename Shape>
  static constexpr CheckedCount Product(const Shape& shape) {
    CheckedCount product(1);
    for (const int64_t extent : shape) product = product * static_cast<uint64_t>(extent);
    return product;
  }
  // The next multiple of `alignment`, a power of two.
  constexpr CheckedCount AlignedUp(uint64_t alignment) const {
    CheckedCount result = *this + CheckedCount(alignment - 1);
    result.value_ &= ~(alignment - 1);
    return result;
  }
  // Whether the true value is known and at most `limit`.
  constexpr bool FitsIn(uint64_t limit) const { return !overflowed_ && value_ <= limit; }
  // The value; the largest uint64 if a step overflowed.
  constexpr uint64_t value() const {
    return overflowed_ ? std::numeric_limits<uint64_t>::max() : value_;
  }

 private:
  uint64_t value_;
  bool overflowed_ = false;
};

}  // namespace bulkhead

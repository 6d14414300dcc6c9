#ifndef BULKHEAD_SERVER_IMAGE_JPEG_BIT_READER_H_
#define BULKHEAD_SERVER_IMAGE_JPEG_BIT_READER_H_

#include <bit>
#include <cstdint>
#include <cstring>

namespace bulkhead::jpeg {

// Bits of bytes without stuffing, first bit first. A plain value, meant to live in registers: it
// checks nothing, the memory behind `at` is ScanBytes' business.
struct BitReader {
  uint64_t bits = 0;  // the next bits, from the top; behind the counted ones may stand further ones
  int count = 0;      // how many of them count, at most 63
  const uint8_t* at = nullptr;  // what follows the counted bits, and fewer than eight of them

  // 56 bits at the least.
  __attribute__((always_inline)) void Refill() {
    uint64_t next;
    std::memcpy(&next, at, sizeof(next));
    if constexpr (std::endian::native == std::endian::little) next = __builtin_bswap64(next);
    bits |= next >> count;
    at += (63 - count) >> 3;
    count |= 56;
  }

  // Only the lower six bits of `n` count.
  __attribute__((always_inline)) uint64_t After(uint32_t n) const { return bits << (n & 63); }

  __attribute__((always_inline)) void Drop(int n) {
    bits <<= n;
    count -= n;
  }
};

// The number that `size` bits stand for, which the upper bits of `bits` are (T.81, F.2.2.1): those
// that begin with a zero are negative. `shift` is 63 - size, in its lower six bits.
__attribute__((always_inline)) inline int SignedValue(uint64_t bits, uint32_t shift) {
  const uint64_t negative = ~static_cast<uint64_t>(static_cast<int64_t>(bits) >> 63);
  const auto magnitude = static_cast<int64_t>(((bits ^ negative) >> 1) >> (shift & 63));
  return static_cast<int>((magnitude ^ static_cast<int64_t>(negative)) -
                          static_cast<int64_t>(negative));
}

// The same for one bit and more; `shift` is 64 - size.
__attribute__((always_inline)) inline int SignedNonzero(uint64_t bits, uint32_t shift) {
  const uint64_t negative = ~static_cast<uint64_t>(static_cast<int64_t>(bits) >> 63);
  const auto magnitude = static_cast<int64_t>((bits ^ negative) >> (shift & 63));
  return static_cast<int>((magnitude ^ static_cast<int64_t>(negative)) -
                          static_cast<int64_t>(negative));
}

}  // namespace bulkhead::jpeg

#endif  // BULKHEAD_SERVER_IMAGE_JPEG_BIT_READER_H_

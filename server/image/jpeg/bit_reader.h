#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#define BULKHEAD_ALWAYS_INLINE __attribute__((always_inline)) inline

namespace bulkhead::jpeg {

// Bits of bytes without stuffing, first bit first. A plain value, meant to live in registers: it
// checks nothing, the memory behind `at` is ScanBytes' business.
//
// What limits it is how long it takes from one lookup to the next, so nothing may stand between
// that need not: a table's entry, whose lower six bits say how many bits to drop, is itself what
// shifts and counts are told; shifts look at six bits only, and the count is kept in six.
struct BitReader {
  uint64_t bits = 0;  // the next bits, from the top; behind the counted ones may stand further ones
  uint32_t counted = 0;         // in its lower six bits: how many of them count
  const uint8_t* at = nullptr;  // what follows the counted bits, and fewer than eight of them

  int count() const { return static_cast<int>(counted & 63); }

  // Now 56 bits count at the least.
  BULKHEAD_ALWAYS_INLINE void Refill() {
    uint64_t next;
    std::memcpy(&next, at, sizeof(next));
    if constexpr (std::endian::native == std::endian::little) next = __builtin_bswap64(next);
    bits |= next >> (counted & 63);
    at += (~counted & 63) >> 3;
    counted |= 56;
  }

  // The bits behind the next `n`; only the lower six bits of `n` count.
  BULKHEAD_ALWAYS_INLINE uint64_t After(uint32_t n) const { return bits << (n & 63); }

  // Only the lower six bits of `n` count.
  BULKHEAD_ALWAYS_INLINE void Drop(uint32_t n) {
    bits <<= n & 63;
    counted -= n;
  }
};

// The number that `size` bits stand for, which the upper bits of `bits` are (T.81, F.2.2.1): those
// that begin with a zero are negative. `shift` is 63 - size, in its lower six bits.
BULKHEAD_ALWAYS_INLINE int SignedValue(uint64_t bits, uint32_t shift) {
  const uint64_t negative = ~static_cast<uint64_t>(static_cast<int64_t>(bits) >> 63);
  const auto magnitude = static_cast<int64_t>(((bits ^ negative) >> 1) >> (shift & 63));
  return static_cast<int>((magnitude ^ static_cast<int64_t>(negative)) -
                          static_cast<int64_t>(negative));
}

// The same for one bit and more; `shift` is 64 - size.
BULKHEAD_ALWAYS_INLINE int SignedNonzero(uint64_t bits, uint32_t shift) {
  const uint64_t negative = ~static_cast<uint64_t>(static_cast<int64_t>(bits) >> 63);
  const auto magnitude = static_cast<int64_t>((bits ^ negative) >> (shift & 63));
  return static_cast<int>((magnitude ^ static_cast<int64_t>(negative)) -
                          static_cast<int64_t>(negative));
}

}  // namespace bulkhead::jpeg

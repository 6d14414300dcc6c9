#include "server/sampler/keyed_permutation.h"

#include <algorithm>
#include <bit>

#include "server/base/random.h"

namespace bulkhead {
namespace {

// Four make a strong permutation; small domains profit from more.
constexpr uint64_t kRounds = 8;

}  // namespace

KeyedPermutation::KeyedPermutation(uint64_t key, uint64_t count)
    : key_(key),
      count_(count),
      half_bits_(std::max(1, static_cast<int>(std::bit_width(count - 1) + 1) / 2)),
      mask_((uint64_t{1} << half_bits_) - 1) {}

uint64_t KeyedPermutation::At(uint64_t index) const {
  do {
    index = Forward(index);
  } while (index >= count_);
  return index;
}

uint64_t KeyedPermutation::IndexOf(uint64_t value) const {
  do {
    value = Backward(value);
  } while (value >= count_);
  return value;
}

uint64_t KeyedPermutation::Forward(uint64_t value) const {
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask_;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t next = left ^ (MixBits(round << 32 | right, key_) & mask_);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

uint64_t KeyedPermutation::Backward(uint64_t value) const {
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask_;
  for (uint64_t round = kRounds; round-- > 0;) {
    const uint64_t previous = right ^ (MixBits(round << 32 | left, key_) & mask_);
    right = left;
    left = previous;
  }
  return left << half_bits_ | right;
}

}  // namespace bulkhead

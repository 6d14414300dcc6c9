#pragma once

#include <cstdint>

namespace bulkhead {

// A keyed bijection of 0 … count − 1 in constant time and memory, both ways: a balanced Feistel
// network over the smallest domain of 2^(2·half_bits) that holds them all, walked along its cycles
// until the value falls inside (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA
// 2002). The domain is less than four times too large, so a walk takes fewer than four steps on
// average. Part of the data format: it never changes. A plain value, cheap to make; thread-safe.
class KeyedPermutation {
 public:
  // `count` ≥ 1.
  KeyedPermutation(uint64_t key, uint64_t count);

  // The value at `index` < count, and the index of `value` < count.
  uint64_t At(uint64_t index) const;
  uint64_t IndexOf(uint64_t value) const;

 private:
  uint64_t Forward(uint64_t value) const;
  uint64_t Backward(uint64_t value) const;

  uint64_t key_;
  uint64_t count_;
  int half_bits_;
  uint64_t mask_;
};

}  // namespace bulkhead

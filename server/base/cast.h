#pragma once

#include <cstddef>

#include "bulkhead/v1/types.pb.h"

namespace bulkhead {

// The result of an integer that the target integer type cannot hold.
enum class Overflow {
  kClamp,  // the nearest number that it can hold, as the stages promise
  kWrap,   // the number modulo 2^n, as C++ and TensorFlow convert
};

// Converts `count` elements from `in` to `out`, which may be unaligned but must not overlap. Both
// types are integers, floats or bool. Float → integer: truncated towards zero and clamped; NaN
// becomes 0. Any type → narrower float: rounded once, to nearest even (large values become
// infinite). To bool: 0 stays 0, all else becomes 1. From bool: 0 or 1.
void CastElements(v1::DType from, const void* in, v1::DType to, void* out, size_t count,
                  Overflow overflow = Overflow::kClamp);

}  // namespace bulkhead

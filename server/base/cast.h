#ifndef BULKHEAD_SERVER_BASE_CAST_H_
#define BULKHEAD_SERVER_BASE_CAST_H_

#include <cstddef>

#include "bulkhead/v1/types.pb.h"

namespace bulkhead {

// What an integer becomes that the other integer type cannot hold.
enum class Overflow {
  kClamp,  // the nearest number it can hold, as the stages promise
  kWrap,   // the number modulo 2^n, as C++ and TensorFlow convert
};

// Converts `count` elements at `in` to `out`; neither needs to be aligned, they must not overlap.
// Both types are integers, floats or bool. Float → integer: truncated towards zero, clamped, NaN
// becomes 0. Anything → narrower float: rounded once, to nearest even (so large values become
// infinite). To bool: 1 unless 0. From bool: 0 or 1.
void CastElements(v1::DType from, const void* in, v1::DType to, void* out, size_t count,
                  Overflow overflow = Overflow::kClamp);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_BASE_CAST_H_

#ifndef BULKHEAD_SERVER_IMAGE_CAST_H_
#define BULKHEAD_SERVER_IMAGE_CAST_H_

#include <cstddef>
#include <cstdint>

namespace bulkhead {

// Element types of tensors in memory.
enum class ElementType {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,   // IEEE 754 binary16
  kBfloat16,  // upper half of a float32
  kFloat32,
  kFloat64,
  kBool,  // one byte, 0 or 1
};

// Bytes of one element.
size_t ElementSize(ElementType type);

// Converts `count` elements at `in` to `out`; neither needs to be aligned, they must not overlap.
// Integer → integer: clamped. Float → integer: truncated towards zero, clamped, NaN becomes 0.
// Anything → narrower float: rounded once, to nearest even (so large values become infinite). To
// bool: 1 unless 0 or NaN. From bool: 0 or 1.
void CastElements(ElementType from, const void* in, ElementType to, void* out, size_t count);

// The bits of a float32 rounded to nearest even; NaN stays NaN.
uint16_t FloatToHalfBits(float value);
uint16_t FloatToBfloat16Bits(float value);
float HalfBitsToFloat(uint16_t bits);
float Bfloat16BitsToFloat(uint16_t bits);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_IMAGE_CAST_H_

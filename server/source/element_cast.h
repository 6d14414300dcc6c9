#ifndef BULKHEAD_SERVER_SOURCE_ELEMENT_CAST_H_
#define BULKHEAD_SERVER_SOURCE_ELEMENT_CAST_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "bulkhead/v1/types.pb.h"

namespace bulkhead {

// Element types that a TensorProto may hold and that can be read or converted. Two of them, uint32
// and uint64, can be read but not delivered.
enum class StoredType {
  kNone,
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kUint64,
  kInt64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
  kBool,
};

// kNone for a type that is not a number.
StoredType FromDType(v1::DType dtype);
// By TensorFlow's number (tensorflow/core/framework/types.proto); kNone for strings, complex
// numbers, quantized types and unknown numbers.
StoredType FromTensorFlow(uint64_t data_type);
size_t StoredBytes(StoredType type);
absl::string_view StoredName(StoredType type);

// Converts `count` elements as C++ converts numbers: to integers modulo 2^n, from floats by
// truncation. Where C++ leaves the result undefined (a float out of the integer's range) it is
// clamped, NaN becomes 0. To narrower floats by rounding once to nearest even. To bool: 0 or not.
// Neither side needs to be aligned; they must not overlap.
void ConvertElements(StoredType from, const char* in, StoredType to, char* out, size_t count);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SOURCE_ELEMENT_CAST_H_

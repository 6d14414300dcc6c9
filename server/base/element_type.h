#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "bulkhead/v1/types.pb.h"

// Element types of tensors, numbered by v1::DType throughout the service and its tools. One table
// describes them.
namespace bulkhead {

// "float32", as in specs; empty for an unknown number.
absl::string_view DTypeName(v1::DType dtype);

// Bytes of one element; 0 for DTYPE_BYTES and DTYPE_UNSPECIFIED.
uint64_t ElementBytes(v1::DType dtype);

// The type in NumPy's array interface: "<f4". NumPy has no bfloat16, so that counts as uint16.
// Empty for DTYPE_BYTES and DTYPE_UNSPECIFIED.
absl::string_view NumPyName(v1::DType dtype);

// Integers of any width, without bool.
bool IsInteger(v1::DType dtype);

// Real numbers of any width.
bool IsFloat(v1::DType dtype);

// Whether only the user's stages produce the type, and no built-in stage takes it (uint32, uint64,
// complex64, complex128).
bool IsForDelivery(v1::DType dtype);

}  // namespace bulkhead

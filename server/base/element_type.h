#ifndef BULKHEAD_SERVER_BASE_ELEMENT_TYPE_H_
#define BULKHEAD_SERVER_BASE_ELEMENT_TYPE_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "bulkhead/v1/types.pb.h"

// Element types of tensors. v1::DType numbers them everywhere in the service and its tools; one
// table holds what is known of each.
namespace bulkhead {

// "float32", as specs write it; empty for a number that v1::DType does not have.
absl::string_view DTypeName(v1::DType dtype);

// Bytes of one element; 0 for DTYPE_BYTES and DTYPE_UNSPECIFIED.
uint64_t ElementBytes(v1::DType dtype);

// The type in NumPy's array interface: "<f4". bfloat16, which NumPy does not have, counts as the
// uint16 of its bits. Empty for DTYPE_BYTES and DTYPE_UNSPECIFIED.
absl::string_view NumPyName(v1::DType dtype);

// Whole numbers of any width; not bool.
bool IsInteger(v1::DType dtype);

// Real numbers of any width.
bool IsFloat(v1::DType dtype);

// Whether the type only passes through: given by stages of the user's, delivered, and known to no
// other stage (uint32, uint64, complex64, complex128).
bool IsForDelivery(v1::DType dtype);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_BASE_ELEMENT_TYPE_H_

#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "bulkhead/batch.h"
#include "bulkhead/v1/types.pb.h"

namespace bulkhead::client_internal {

// What the client knows of an element type.
struct ElementTypeRow {
  ElementType type;
  v1::DType dtype;
  const char* name;  // as specs write it
  uint64_t bytes;    // of one element; 0 where the schema tells
};

// Row i is that of enumerator i.
inline constexpr ElementTypeRow kElementTypes[] = {
    {ElementType::kUint8, v1::DTYPE_UINT8, "uint8", 1},
    {ElementType::kInt8, v1::DTYPE_INT8, "int8", 1},
    {ElementType::kUint16, v1::DTYPE_UINT16, "uint16", 2},
    {ElementType::kInt16, v1::DTYPE_INT16, "int16", 2},
    {ElementType::kInt32, v1::DTYPE_INT32, "int32", 4},
    {ElementType::kInt64, v1::DTYPE_INT64, "int64", 8},
    {ElementType::kFloat16, v1::DTYPE_FLOAT16, "float16", 2},
    {ElementType::kBfloat16, v1::DTYPE_BFLOAT16, "bfloat16", 2},
    {ElementType::kFloat32, v1::DTYPE_FLOAT32, "float32", 4},
    {ElementType::kFloat64, v1::DTYPE_FLOAT64, "float64", 8},
    {ElementType::kBool, v1::DTYPE_BOOL, "bool", 1},
    {ElementType::kBytes, v1::DTYPE_BYTES, "bytes", 0},
    {ElementType::kUint32, v1::DTYPE_UINT32, "uint32", 4},
    {ElementType::kUint64, v1::DTYPE_UINT64, "uint64", 8},
    {ElementType::kComplex64, v1::DTYPE_COMPLEX64, "complex64", 8},
    {ElementType::kComplex128, v1::DTYPE_COMPLEX128, "complex128", 16},
};

constexpr const ElementTypeRow& RowOf(ElementType type) {
  return kElementTypes[static_cast<size_t>(type)];
}

// Null for a type that this client does not know.
constexpr const ElementTypeRow* RowOf(v1::DType dtype) {
  for (const ElementTypeRow& row : kElementTypes) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

constexpr bool ElementTypesAreInOrder() {
  for (size_t i = 0; i < std::size(kElementTypes); ++i) {
    if (static_cast<size_t>(kElementTypes[i].type) != i) return false;
  }
  return true;
}
static_assert(ElementTypesAreInOrder());

}  // namespace bulkhead::client_internal

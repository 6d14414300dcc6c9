#include "server/base/element_type.h"

#include <cstddef>
#include <iterator>

namespace bulkhead {
namespace {

enum class Kind { kOther, kInteger, kFloat };

struct Row {
  v1::DType dtype;
  absl::string_view name;
  uint64_t bytes;
  absl::string_view numpy;
  Kind kind;
  bool for_delivery = false;
};

// Row i describes the type of number i.
constexpr Row kTable[] = {
    {v1::DTYPE_UNSPECIFIED, "unspecified", 0, "", Kind::kOther},
    {v1::DTYPE_UINT8, "uint8", 1, "|u1", Kind::kInteger},
    {v1::DTYPE_INT8, "int8", 1, "|i1", Kind::kInteger},
    {v1::DTYPE_UINT16, "uint16", 2, "<u2", Kind::kInteger},
    {v1::DTYPE_INT16, "int16", 2, "<i2", Kind::kInteger},
    {v1::DTYPE_INT32, "int32", 4, "<i4", Kind::kInteger},
    {v1::DTYPE_INT64, "int64", 8, "<i8", Kind::kInteger},
    {v1::DTYPE_FLOAT16, "float16", 2, "<f2", Kind::kFloat},
    {v1::DTYPE_BFLOAT16, "bfloat16", 2, "<u2", Kind::kFloat},
    {v1::DTYPE_FLOAT32, "float32", 4, "<f4", Kind::kFloat},
    {v1::DTYPE_FLOAT64, "float64", 8, "<f8", Kind::kFloat},
    {v1::DTYPE_BOOL, "bool", 1, "|b1", Kind::kOther},
    {v1::DTYPE_BYTES, "bytes", 0, "", Kind::kOther},
    {v1::DTYPE_UINT32, "uint32", 4, "<u4", Kind::kInteger, true},
    {v1::DTYPE_UINT64, "uint64", 8, "<u8", Kind::kInteger, true},
    {v1::DTYPE_COMPLEX64, "complex64", 8, "<c8", Kind::kOther, true},
    {v1::DTYPE_COMPLEX128, "complex128", 16, "<c16", Kind::kOther, true},
};
static_assert(std::size(kTable) == v1::DType_ARRAYSIZE);

constexpr Row kUnknown = {v1::DTYPE_UNSPECIFIED, "", 0, "", Kind::kOther};

const Row& RowOf(v1::DType dtype) {
  const auto number = static_cast<size_t>(dtype);
  return number < std::size(kTable) ? kTable[number] : kUnknown;
}

}  // namespace

absl::string_view DTypeName(v1::DType dtype) { return RowOf(dtype).name; }

uint64_t ElementBytes(v1::DType dtype) { return RowOf(dtype).bytes; }

absl::string_view NumPyName(v1::DType dtype) { return RowOf(dtype).numpy; }

bool IsInteger(v1::DType dtype) { return RowOf(dtype).kind == Kind::kInteger; }

bool IsFloat(v1::DType dtype) { return RowOf(dtype).kind == Kind::kFloat; }

bool IsForDelivery(v1::DType dtype) { return RowOf(dtype).for_delivery; }

}  // namespace bulkhead

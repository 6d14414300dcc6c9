#include "tools/replay/npy.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/little_endian.h"

namespace bulkhead::tools {
namespace {

std::string Description(const Tensor& tensor) {
  switch (tensor.dtype) {
    case ElementType::kUint8:
      return "|u1";
    case ElementType::kInt8:
      return "|i1";
    case ElementType::kUint16:
    case ElementType::kBfloat16:
      return "<u2";
    case ElementType::kInt16:
      return "<i2";
    case ElementType::kInt32:
      return "<i4";
    case ElementType::kInt64:
      return "<i8";
    case ElementType::kFloat16:
      return "<f2";
    case ElementType::kFloat32:
      return "<f4";
    case ElementType::kFloat64:
      return "<f8";
    case ElementType::kBool:
      return "|b1";
    case ElementType::kUint32:
      return "<u4";
    case ElementType::kUint64:
      return "<u8";
    case ElementType::kComplex64:
      return "<c8";
    case ElementType::kComplex128:
      return "<c16";
    case ElementType::kBytes:
      break;
  }
  return absl::StrCat("|S", tensor.element_bytes);
}

}  // namespace

std::string NpyHeader(const Tensor& tensor) {
  constexpr size_t kPreamble = 10;  // magic, version, length
  std::string dictionary =
      absl::StrCat("{'descr': '", Description(tensor), "', 'fortran_order': False, 'shape': (",
                   absl::StrJoin(tensor.shape, ", "), tensor.shape.size() == 1 ? ",), }" : "), }");
  dictionary.append(63 - (kPreamble + dictionary.size()) % 64, ' ');
  dictionary += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  AppendLittle<uint16_t>(header, static_cast<uint16_t>(dictionary.size()));
  return header + dictionary;
}

}  // namespace bulkhead::tools

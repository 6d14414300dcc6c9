#include "tools/replay/npy.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/element_type.h"
#include "server/base/little_endian.h"
#include "tools/common/tensor_type.h"

namespace bulkhead::tools {
namespace {

std::string Description(const Tensor& tensor) {
  return tensor.dtype == ElementType::kBytes ? absl::StrCat("|S", tensor.element_bytes)
                                             : std::string(NumPyName(DTypeOf(tensor)));
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

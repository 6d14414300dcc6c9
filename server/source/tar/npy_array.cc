#include "server/source/tar/npy_array.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/base/record_name.h"

namespace bulkhead {
namespace {

constexpr absl::string_view kMagic = "\x93NUMPY";
// NumPy's own limit of dimensions (NPY_MAXDIMS of NumPy 2).
constexpr size_t kMaxNpyRank = 64;
constexpr v1::DType kNpyTypes[] = {v1::DTYPE_UINT8,   v1::DTYPE_INT8,    v1::DTYPE_UINT16,
                                   v1::DTYPE_INT16,   v1::DTYPE_UINT32,  v1::DTYPE_INT32,
                                   v1::DTYPE_UINT64,  v1::DTYPE_INT64,   v1::DTYPE_FLOAT16,
                                   v1::DTYPE_FLOAT32, v1::DTYPE_FLOAT64, v1::DTYPE_BOOL};

absl::Status BadNpy(absl::string_view what) {
  return SampleError(reason::kMalformedExample,
                     absl::StrCat("is not a NumPy array: ", what, "; write it with numpy.save"));
}

// What follows "'name': " in the header, a literal of Python; empty: nothing.
absl::string_view Literal(absl::string_view header, absl::string_view name) {
  const std::string quoted = absl::StrCat("'", name, "':");
  const size_t at = header.find(quoted);
  if (at == absl::string_view::npos) return {};
  return absl::StripLeadingAsciiWhitespace(header.substr(at + quoted.size()));
}

// "'<f4'" as an element type.
absl::StatusOr<v1::DType> TypeOf(absl::string_view literal) {
  const size_t end = literal.size() < 2 || literal[0] != '\'' ? 0 : literal.find('\'', 1);
  if (end == absl::string_view::npos) return BadNpy("its header has no `descr`");
  const absl::string_view name = literal.substr(1, end == 0 ? 0 : end - 1);
  for (const v1::DType type : kNpyTypes) {
    const absl::string_view known = NumPyName(type);
    const bool same = name.size() == known.size() && name.substr(1) == known.substr(1);
    if (same && (name[0] == known[0] || known[0] == '|' || name[0] == '=')) return type;
    if (same && name[0] == '>') {
      return SampleError(reason::kWrongDType,
                         absl::StrCat("the array is big-endian (", name,
                                      "); write it with astype('", known, "')"));
    }
  }
  return SampleError(reason::kWrongDType,
                     absl::StrCat("the array holds elements of NumPy's type ",
                                  Printable(end == 0 ? literal.substr(0, 20) : name),
                                  ", which are no numbers that a tensor has"));
}

// "(3, 4)" as dimensions.
bool TakeDims(absl::string_view literal, TensorDims& dims) {
  const size_t end = literal.find(')');
  if (literal.empty() || literal[0] != '(' || end == absl::string_view::npos) return false;
  for (absl::string_view part : absl::StrSplit(literal.substr(1, end - 1), ',')) {
    part = absl::StripAsciiWhitespace(part);
    if (part.empty()) continue;  // behind the comma of "(3,)"
    int64_t dim = 0;
    if (!absl::SimpleAtoi(part, &dim) || dim < 0 || dims.size() == kMaxNpyRank) return false;
    dims.push_back(dim);
  }
  return true;
}

}  // namespace

bool IsNpy(absl::string_view bytes) { return absl::StartsWith(bytes, kMagic); }

absl::StatusOr<NpyArray> ParseNpy(absl::string_view bytes) {
  if (!IsNpy(bytes)) return BadNpy("it does not begin as one");
  const size_t fixed = kMagic.size() + 2;  // and the version
  if (bytes.size() < fixed + 4) return BadNpy("its header is cut short");
  const int version = static_cast<unsigned char>(bytes[kMagic.size()]);
  const size_t width = version == 1 ? 2 : 4;
  if (version < 1 || version > 3) return BadNpy(absl::StrCat("it has version ", version));
  const size_t size = version == 1 ? LoadLittle<uint16_t>(bytes.data() + fixed)
                                   : LoadLittle<uint32_t>(bytes.data() + fixed);
  const size_t begin = fixed + width;
  if (size > bytes.size() - begin) return BadNpy("its header is cut short");
  const absl::string_view header = bytes.substr(begin, size);
  NpyArray array;
  BULKHEAD_ASSIGN_OR_RETURN(array.dtype, TypeOf(Literal(header, "descr")));
  if (!TakeDims(Literal(header, "shape"), array.dims)) return BadNpy("its header has no `shape`");
  const absl::string_view by_columns = Literal(header, "fortran_order");
  if (absl::StartsWith(by_columns, "True") && array.dims.size() > 1) {
    return SampleError(reason::kMalformedExample,
                       "the array is stored column by column (Fortran order); write it with "
                       "numpy.ascontiguousarray");
  }
  array.content = bytes.substr(begin + size);
  return array;
}

absl::Status ReadNpy(absl::string_view bytes, const TensorTarget& target, ByteBuffer& scratch,
                     TensorValue& value) {
  BULKHEAD_ASSIGN_OR_RETURN(const NpyArray array, ParseNpy(bytes));
  BULKHEAD_RETURN_IF_ERROR(CheckTensorType(array.dtype, target));
  uint64_t elements = 0;
  BULKHEAD_RETURN_IF_ERROR(CheckTensorShape(array.dims, *target.signature, value.count, elements));
  const uint64_t needed = elements * ElementBytes(array.dtype);
  if (array.content.size() != needed) {
    return BadNpy(absl::StrCat("its elements have ", array.content.size(), " bytes, its shape ",
                               ShapeText(array.dims), " of ", DTypeName(array.dtype), " needs ",
                               needed));
  }
  value.bytes =
      AsTargetType(array.content, array.dtype, target.signature->dtype, elements, scratch);
  return absl::OkStatus();
}

}  // namespace bulkhead

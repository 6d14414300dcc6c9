#include "server/source/tfrecord/tensor_reader.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/base/cast.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/source/tfrecord/wire_reader.h"

namespace bulkhead {
namespace {

// Numbers of TensorProto's fields (tensorflow/core/framework/tensor.proto).
constexpr uint32_t kDType = 1;
constexpr uint32_t kShape = 2;
constexpr uint32_t kContent = 4;
constexpr uint32_t kFloatVal = 5;
constexpr uint32_t kDoubleVal = 6;
constexpr uint32_t kIntVal = 7;
constexpr uint32_t kInt64Val = 10;
constexpr uint32_t kBoolVal = 11;
constexpr uint32_t kHalfVal = 13;
constexpr uint32_t kUint32Val = 16;
constexpr uint32_t kUint64Val = 17;
// TensorFlow's own limit (TensorShape::MaxDimensions).
constexpr size_t kMaxRank = 254;

// The types that are read; uint32 and uint64 among them, which no feature has: they are converted.
struct TensorFlowType {
  uint64_t number;  // in tensorflow/core/framework/types.proto
  v1::DType dtype;
  uint32_t values;  // the field that holds elements when tensor_content does not
};
constexpr TensorFlowType kTensorFlowTypes[] = {
    {1, v1::DTYPE_FLOAT32, kFloatVal},  {2, v1::DTYPE_FLOAT64, kDoubleVal},
    {3, v1::DTYPE_INT32, kIntVal},      {4, v1::DTYPE_UINT8, kIntVal},
    {5, v1::DTYPE_INT16, kIntVal},      {6, v1::DTYPE_INT8, kIntVal},
    {9, v1::DTYPE_INT64, kInt64Val},    {10, v1::DTYPE_BOOL, kBoolVal},
    {14, v1::DTYPE_BFLOAT16, kHalfVal}, {17, v1::DTYPE_UINT16, kIntVal},
    {19, v1::DTYPE_FLOAT16, kHalfVal},  {22, v1::DTYPE_UINT32, kUint32Val},
    {23, v1::DTYPE_UINT64, kUint64Val},
};

struct ParsedTensor {
  uint64_t dtype = 0;
  TensorDims dims;
  bool unknown_rank = false;
  absl::string_view content;
};

// DTYPE_UNSPECIFIED for strings, complex numbers, quantized types and unknown numbers.
v1::DType FromTensorFlow(uint64_t number) {
  const auto found = std::ranges::find(kTensorFlowTypes, number, &TensorFlowType::number);
  return found == std::end(kTensorFlowTypes) ? v1::DTYPE_UNSPECIFIED : found->dtype;
}

absl::Status NoTensor(absl::string_view what) {
  return SampleError(
      reason::kMalformedExample,
      absl::StrCat("is not a serialized tensor: ", what, "; write it with tf.io.serialize_tensor"));
}

bool ParseShape(absl::string_view message, ParsedTensor& tensor) {
  WireReader reader(message);
  while (reader.Next()) {
    if (reader.Is(3, WireReader::kVarint)) tensor.unknown_rank = reader.number_value() != 0;
    if (!reader.Is(2, WireReader::kBytes)) continue;
    int64_t size = 0;
    WireReader dim(reader.bytes());
    while (dim.Next()) {
      if (dim.Is(1, WireReader::kVarint)) size = static_cast<int64_t>(dim.number_value());
    }
    if (dim.failed() || size < 0 || tensor.dims.size() == kMaxRank) return false;
    tensor.dims.push_back(size);
  }
  return !reader.failed();
}

bool Parse(absl::string_view message, ParsedTensor& tensor) {
  WireReader reader(message);
  while (reader.Next()) {
    if (reader.Is(kDType, WireReader::kVarint)) tensor.dtype = reader.number_value();
    if (reader.Is(kContent, WireReader::kBytes)) tensor.content = reader.bytes();
    if (reader.Is(kShape, WireReader::kBytes) && !ParseShape(reader.bytes(), tensor)) return false;
  }
  return !reader.failed();
}

// Fills `out` with the values of the typed field. `bytes` is the size of one element.
absl::Status ReadTypedField(absl::string_view message, v1::DType type, uint64_t elements,
                            char* out) {
  const size_t bytes = ElementBytes(type);
  const uint32_t field = std::ranges::find(kTensorFlowTypes, type, &TensorFlowType::dtype)->values;
  const uint32_t fixed = type == v1::DTYPE_FLOAT32   ? WireReader::kFixed32
                         : type == v1::DTYPE_FLOAT64 ? WireReader::kFixed64
                                                     : WireReader::kVarint;
  uint64_t found = 0;
  // A little-endian number's low bytes are its narrower self, so varints are cut to the element.
  const auto put = [&](uint64_t value) {
    if (type == v1::DTYPE_BOOL) value = value != 0;
    if (found < elements) std::memcpy(out + found * bytes, &value, bytes);
    ++found;
  };
  WireReader reader(message);
  while (reader.Next()) {
    if (!reader.IsNumber(field)) continue;
    if (reader.type() == fixed) {
      put(reader.number_value());
    } else if (reader.type() == WireReader::kBytes) {
      absl::string_view packed = reader.bytes();
      if (fixed != WireReader::kVarint && packed.size() % bytes != 0) {
        return NoTensor("a packed field has the wrong size");
      }
      while (!packed.empty()) {
        uint64_t value = 0;
        if (fixed == WireReader::kVarint) {
          if (!TakeVarint(packed, value)) return NoTensor("a number is cut short");
        } else {
          std::memcpy(&value, packed.data(), bytes);
          packed.remove_prefix(bytes);
        }
        put(value);
      }
    }
  }
  if (found > elements) {
    return NoTensor(absl::StrCat("it has ", found, " values for ", elements, " elements"));
  }
  if (found == 0) std::memset(out, 0, elements * bytes);
  for (uint64_t i = found; found > 0 && i < elements; ++i) {
    std::memcpy(out + i * bytes, out + (found - 1) * bytes, bytes);
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t TensorFlowNumber(v1::DType dtype) {
  const auto found = std::ranges::find(kTensorFlowTypes, dtype, &TensorFlowType::dtype);
  return found == std::end(kTensorFlowTypes) ? 0 : found->number;
}

std::optional<StoredTensor> SniffTensor(absl::string_view bytes) {
  ParsedTensor tensor;
  // The type comes first.
  if (bytes.empty() || bytes[0] != 8 * kDType || !Parse(bytes, tensor)) return std::nullopt;
  const v1::DType dtype = FromTensorFlow(tensor.dtype);
  if (dtype == v1::DTYPE_UNSPECIFIED || tensor.dims.empty()) return std::nullopt;
  uint64_t needed = ElementBytes(dtype);
  for (const int64_t dim : tensor.dims) {
    if (__builtin_mul_overflow(needed, static_cast<uint64_t>(dim), &needed)) return std::nullopt;
  }
  if (!tensor.content.empty() && tensor.content.size() != needed) return std::nullopt;
  return StoredTensor{dtype, {tensor.dims.begin(), tensor.dims.end()}};
}

absl::Status ReadTensor(absl::string_view message, const TensorTarget& target, ByteBuffer& scratch,
                        TensorValue& value) {
  const FeatureSignature& signature = *target.signature;
  ParsedTensor tensor;
  if (!Parse(message, tensor)) return NoTensor("its bytes are not a TensorProto");
  const v1::DType stored = FromTensorFlow(tensor.dtype);
  const v1::DType wanted = signature.dtype;
  if (stored == v1::DTYPE_UNSPECIFIED) {
    return SampleError(reason::kWrongDType,
                       absl::StrCat("the tensor holds TensorFlow's data type ", tensor.dtype,
                                    ", which is not a number; the spec says ", DTypeName(wanted)));
  }
  BULKHEAD_RETURN_IF_ERROR(CheckTensorType(stored, target));
  if (tensor.unknown_rank) return WrongTensorShape("shape unknown", signature);
  uint64_t elements = 0;
  BULKHEAD_RETURN_IF_ERROR(CheckTensorShape(tensor.dims, signature, value.count, elements));
  const uint64_t stored_bytes = elements * ElementBytes(stored);
  const bool in_content = !tensor.content.empty();
  if (in_content && tensor.content.size() != stored_bytes) {
    return NoTensor(absl::StrCat("its content has ", tensor.content.size(), " bytes, its shape ",
                                 ShapeText(tensor.dims), " of ", DTypeName(stored), " needs ",
                                 stored_bytes));
  }
  if (in_content) {
    value.bytes = AsTargetType(tensor.content, stored, wanted, elements, scratch);
    return absl::OkStatus();
  }
  // One block: the result, then, where a conversion needs it, the typed field's values.
  const bool convert = stored != wanted;
  const uint64_t result_bytes = elements * ElementBytes(wanted);
  char* const result = scratch.Reserve(result_bytes + (convert ? stored_bytes : 0));
  char* const values = convert ? result + result_bytes : result;
  BULKHEAD_RETURN_IF_ERROR(ReadTypedField(message, stored, elements, values));
  if (convert) CastElements(stored, values, wanted, result, elements, Overflow::kWrap);
  value.bytes = absl::string_view(result, result_bytes);
  return absl::OkStatus();
}

}  // namespace bulkhead

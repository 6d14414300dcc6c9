#include "server/source/records/tensor_value.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/cast.h"
#include "server/base/element_type.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

std::string ExpectedText(const FeatureSignature& signature) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < signature.shape.size(); ++i) {
    parts.push_back(i == 0 && signature.variable ? "-1" : absl::StrCat(signature.shape[i]));
  }
  return absl::StrCat("[", absl::StrJoin(parts, ", "), "]");
}

}  // namespace

std::string ShapeText(absl::Span<const int64_t> dims) {
  return absl::StrCat("[", absl::StrJoin(dims, ", "), "]");
}

absl::Status CheckTensorType(v1::DType stored, const TensorTarget& target) {
  const v1::DType wanted = target.signature->dtype;
  if (stored == wanted || target.cast) return absl::OkStatus();
  return SampleError(
      reason::kWrongDType,
      absl::StrCat("the tensor holds ", DTypeName(stored), ", the spec says ", DTypeName(wanted),
                   "; write dtype: ", DTypeName(stored), " or cast: true"));
}

absl::Status CheckTensorShape(absl::Span<const int64_t> dims, const FeatureSignature& signature,
                              int64_t& rows, uint64_t& elements) {
  rows = 1;
  elements = 0;
  if (signature.variable && dims.size() == 1 && dims[0] == 0) {
    rows = 0;
    return absl::OkStatus();
  }
  const auto wrong = [&] {
    return WrongTensorShape(absl::StrCat("shape ", ShapeText(dims)), signature);
  };
  if (dims.size() != signature.shape.size()) return wrong();
  elements = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool free = i == 0 && signature.variable;
    if (!free && dims[i] != signature.shape[i]) return wrong();
    if (free) rows = dims[i];
  }
  if (signature.variable && rows > signature.shape[0]) {
    return SampleError(reason::kOverBound,
                       absl::StrCat("the tensor has ", rows, " rows, max_count is ",
                                    signature.shape[0], "; raise max_count to take it"));
  }
  // Every extent is now at most the declared one, whose product fits.
  for (const int64_t dim : dims) elements *= static_cast<uint64_t>(dim);
  return absl::OkStatus();
}

absl::Status WrongTensorShape(absl::string_view found, const FeatureSignature& signature) {
  return SampleError(reason::kWrongShape, absl::StrCat("the tensor has ", found, ", the spec says ",
                                                       ExpectedText(signature)));
}

absl::string_view AsTargetType(absl::string_view content, v1::DType stored, v1::DType wanted,
                               uint64_t elements, ByteBuffer& scratch) {
  if (stored == wanted) return content;
  const uint64_t wanted_bytes = elements * ElementBytes(wanted);
  char* const result = scratch.Reserve(wanted_bytes);
  CastElements(stored, content.data(), wanted, result, elements, Overflow::kWrap);
  return absl::string_view(result, wanted_bytes);
}

}  // namespace bulkhead

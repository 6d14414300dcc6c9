#include "tools/order/feature_values.h"

#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"

namespace bulkhead::tools {
namespace {

template <typename T>
double Load(const std::byte* data) {
  return static_cast<double>(LoadLittle<T>(data));
}

using Loader = double (*)(const std::byte*);

// Null for types that are not plotted.
Loader LoaderOf(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_UINT8:
    case v1::DTYPE_BOOL:
      return Load<uint8_t>;
    case v1::DTYPE_INT8:
      return Load<int8_t>;
    case v1::DTYPE_UINT16:
      return Load<uint16_t>;
    case v1::DTYPE_INT16:
      return Load<int16_t>;
    case v1::DTYPE_INT32:
      return Load<int32_t>;
    case v1::DTYPE_INT64:
      return Load<int64_t>;
    case v1::DTYPE_FLOAT32:
      return Load<float>;
    case v1::DTYPE_FLOAT64:
      return Load<double>;
    default:
      return nullptr;
  }
}

bool IsPlottable(const FeatureSignature& feature) {
  return feature.kind == FeatureSignature::Kind::kTensor && LoaderOf(feature.dtype) != nullptr;
}

}  // namespace

FeatureValues::FeatureValues(std::unique_ptr<Source> source, size_t index)
    : source_(std::move(source)), context_(source_->NewContext()), index_(index) {}

absl::StatusOr<FeatureValues> FeatureValues::Create(std::unique_ptr<Source> source,
                                                    const std::string& name) {
  std::vector<std::string> names;
  const auto& features = source->features();
  for (size_t i = 0; i < features.size(); ++i) {
    if (!IsPlottable(features[i])) continue;
    if (features[i].name == name) return FeatureValues(std::move(source), i);
    names.push_back(features[i].name);
  }
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                   absl::StrCat("the source has no feature `", name, "` that is a number; it has ",
                                names.empty() ? "none" : absl::StrJoin(names, ", ")));
}

absl::StatusOr<double> FeatureValues::At(uint64_t record) {
  BULKHEAD_RETURN_IF_ERROR(source_->Read(record, *context_, record_));
  const FeatureValue& value = record_.values[index_];
  if (value.size_bytes < ElementBytes(source_->features()[index_].dtype)) return std::nan("");
  return LoaderOf(source_->features()[index_].dtype)(value.data);
}

}  // namespace bulkhead::tools

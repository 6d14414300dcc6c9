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

absl::StatusOr<FeatureValues> FeatureValues::Create(std::vector<std::unique_ptr<Source>> sources,
                                                    const std::string& name) {
  std::vector<Part> parts;
  for (std::unique_ptr<Source>& source : sources) {
    const auto& features = source->features();
    std::vector<std::string> names;
    std::optional<size_t> index;
    for (size_t i = 0; i < features.size(); ++i) {
      if (!IsPlottable(features[i])) continue;
      if (features[i].name == name) index = i;
      names.push_back(features[i].name);
    }
    if (!index.has_value()) {
      return MakeError(
          absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
          absl::StrCat("the source has no feature `", name, "` that is a number; it has ",
                       names.empty() ? "none" : absl::StrJoin(names, ", ")));
    }
    auto context = source->NewContext();
    parts.push_back({std::move(source), std::move(context), *index});
  }
  return FeatureValues(std::move(parts));
}

absl::StatusOr<double> FeatureValues::At(uint64_t record) {
  size_t i = 0;
  for (; record >= parts_[i].source->record_count(); ++i) {
    record -= parts_[i].source->record_count();
  }
  const Part& part = parts_[i];
  BULKHEAD_RETURN_IF_ERROR(part.source->Read(record, *part.context, record_));
  const FeatureValue& value = record_.values[part.index];
  const v1::DType dtype = part.source->features()[part.index].dtype;
  if (value.size_bytes < ElementBytes(dtype)) return std::nan("");
  return LoaderOf(dtype)(value.data);
}

}  // namespace bulkhead::tools

#include "tools/order/feature_values.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/cast.h"
#include "server/base/element_type.h"
#include "server/base/error.h"

namespace bulkhead::tools {
namespace {

bool IsPlottable(const FeatureSignature& feature) {
  return feature.kind == FeatureSignature::Kind::kTensor && ElementBytes(feature.dtype) != 0;
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
  double number = 0;
  CastElements(dtype, value.data, v1::DTYPE_FLOAT64, &number, 1);
  return number;
}

}  // namespace bulkhead::tools

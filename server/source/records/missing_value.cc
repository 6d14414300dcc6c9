#include "server/source/records/missing_value.h"

#include "absl/strings/str_cat.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/source/records/value_rules.h"

namespace bulkhead {
namespace {

// The bytes of `values`, repeated until `elements` are there when it is a single one.
template <typename T, typename Values>
std::string DefaultBytes(const Values& values, uint64_t elements) {
  std::string bytes;
  for (const T value : values) AppendLittle<T>(bytes, value);
  for (uint64_t i = 1; values.size() == 1 && i < elements; ++i) AppendLittle<T>(bytes, values[0]);
  return bytes;
}

absl::Status InvalidDefault(const FeatureSignature& signature, absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                   absl::StrCat(signature.path, what), {{"path", signature.path}});
}

}  // namespace

absl::StatusOr<MissingValue> MissingValue::Create(const FeatureSignature& signature,
                                                  const v1::Feature& feature, bool is_length) {
  MissingValue value;
  const bool variable = signature.variable;
  if (variable) value.count_ = 0;
  switch (feature.type_case()) {
    case v1::Feature::kBoxes:
      value.is_allowed_ = true;
      return value;
    case v1::Feature::kBytes: {
      const bool is_list = !feature.bytes().shape().empty();
      const std::string& missing = feature.bytes().default_();
      value.is_allowed_ = is_list ? variable : feature.bytes().has_default_();
      if (is_list && feature.bytes().max_bytes() == 0) {
        value.advice_ = "";  // a list of images is whole
      } else if (is_list) {
        value.advice_ = "`shape: [-1]`";
      } else if (is_length) {
        AppendLittle<int64_t>(value.bytes_, static_cast<int64_t>(missing.size()));
      } else {
        value.bytes_ = missing;
      }
      return value;
    }
    case v1::Feature::kTensor:
      value.is_allowed_ = feature.tensor().allow_missing();
      value.advice_ = "`allow_missing: true`";
      if (!value.is_allowed_ || variable) return value;
      return InvalidDefault(signature, ".tensor.allow_missing: goes with a variable shape only");
    default:
      return OfNumbers(signature, feature);
  }
}

absl::StatusOr<MissingValue> MissingValue::OfNumbers(const FeatureSignature& signature,
                                                     const v1::Feature& feature) {
  MissingValue value;
  const uint64_t elements = RowElements(signature);
  uint64_t given = 0;
  if (feature.has_int64()) {
    given = static_cast<uint64_t>(feature.int64().default__size());
    value.bytes_ = DefaultBytes<int64_t>(feature.int64().default_(), elements);
  } else {
    given = static_cast<uint64_t>(feature.float_().default__size());
    value.bytes_ = DefaultBytes<float>(feature.float_().default_(), elements);
  }
  value.is_allowed_ = signature.variable || given > 0;
  if (signature.variable) {
    const uint64_t row_bytes = elements * ElementBytes(signature.dtype);
    value.count_ = static_cast<int64_t>(value.bytes_.size() / row_bytes);
  }
  const uint64_t bound = signature.variable ? static_cast<uint64_t>(signature.shape[0]) : 1;
  const bool fits = given <= 1 || (given % elements == 0 && given / elements <= bound);
  if (fits) return value;
  return InvalidDefault(signature, absl::StrCat(".default: ", given,
                                                " values do not fit the shape; give one, or one "
                                                "for each element"));
}

FeatureValue MissingValue::Get() const { return {ValueBytes(bytes_), bytes_.size(), count_}; }

}  // namespace bulkhead

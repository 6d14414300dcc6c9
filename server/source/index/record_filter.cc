#include "server/source/index/record_filter.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"

namespace bulkhead {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Rounded to the nearest float32; beyond its range, infinite.
float ToFloat(double value) {
  if (value > std::numeric_limits<float>::max()) {
    return std::isinf(value) ? kInfinity : std::numeric_limits<float>::max();
  }
  if (value < std::numeric_limits<float>::lowest()) {
    return std::isinf(value) ? -kInfinity : std::numeric_limits<float>::lowest();
  }
  return static_cast<float>(value);
}

bool Holds(const std::vector<int64_t>& sorted, int64_t value) {
  return std::binary_search(sorted.begin(), sorted.end(), value);
}

}  // namespace

absl::StatusOr<RecordFilter> RecordFilter::Create(
    const google::protobuf::RepeatedPtrField<v1::Condition>& conditions,
    const std::vector<FeatureSignature>& features) {
  RecordFilter filter;
  for (const v1::Condition& condition : conditions) {
    const auto found = std::ranges::find(features, condition.feature(), &FeatureSignature::name);
    const bool is_text = found != features.end() && found->kind == FeatureSignature::Kind::kEncoded;
    const bool is_float = found != features.end() && found->dtype == v1::DTYPE_FLOAT32;
    if (found == features.end() || !found->shape.empty() ||
        !(is_text || is_float || found->dtype == v1::DTYPE_INT64)) {
      return MakeError(
          absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
          absl::StrCat("filter: `", condition.feature(), "` is not a single number or byte string"),
          {{"path", "filter"}});
    }
    Test test;
    test.feature = static_cast<size_t>(found - features.begin());
    test.kind = is_text ? Kind::kText : is_float ? Kind::kFloat : Kind::kInt64;
    test.in.assign(condition.in().begin(), condition.in().end());
    test.not_in.assign(condition.not_in().begin(), condition.not_in().end());
    std::sort(test.in.begin(), test.in.end());
    std::sort(test.not_in.begin(), test.not_in.end());
    test.text_in.insert(condition.text_in().begin(), condition.text_in().end());
    test.text_not_in.insert(condition.text_not_in().begin(), condition.text_not_in().end());
    SetBounds(condition, test);
    filter.conditions_.push_back(std::move(test));
  }
  return filter;
}

// Integers at least a bound are those from its ceiling on, which is exact as a double.
void RecordFilter::SetBounds(const v1::Condition& condition, Test& test) {
  test.is_bounded = condition.has_min() || condition.has_max();
  const double min = condition.has_min() ? std::ceil(condition.min()) : -HUGE_VAL;
  const double max = condition.has_max() ? std::floor(condition.max()) : HUGE_VAL;
  if (min > -0x1p63) test.low = min < 0x1p63 ? static_cast<int64_t>(min) : INT64_MAX;
  if (max < 0x1p63) test.high = max >= -0x1p63 ? static_cast<int64_t>(max) : INT64_MIN;
  test.is_impossible = min >= 0x1p63 || max < -0x1p63;
  test.float_low = condition.has_min() ? ToFloat(condition.min()) : -kInfinity;
  test.float_high = condition.has_max() ? ToFloat(condition.max()) : kInfinity;
}

bool RecordFilter::KeepsInteger(const Test& test, int64_t value) {
  return value >= test.low && value <= test.high && !test.is_impossible &&
         (test.in.empty() || Holds(test.in, value)) && !Holds(test.not_in, value);
}

bool RecordFilter::KeepsFloat(const Test& test, float value) {
  if (test.is_bounded && !(value >= test.float_low && value <= test.float_high)) return false;
  const bool is_integer = std::floor(value) == value && value >= -0x1p63f && value < 0x1p63f;
  const int64_t integer = is_integer ? static_cast<int64_t>(value) : 0;
  return (test.in.empty() || (is_integer && Holds(test.in, integer))) &&
         !(is_integer && Holds(test.not_in, integer));
}

bool RecordFilter::KeepsText(const Test& test, absl::string_view value) {
  const std::string text(value);
  return (test.text_in.empty() || test.text_in.count(text) > 0) &&
         test.text_not_in.count(text) == 0;
}

bool RecordFilter::Keeps(const std::vector<FeatureValue>& values) const {
  return std::all_of(conditions_.begin(), conditions_.end(), [&](const Test& test) {
    const FeatureValue& value = values[test.feature];
    const char* bytes = reinterpret_cast<const char*>(value.data);
    if (test.kind == Kind::kText) {
      return KeepsText(test, absl::string_view(bytes, value.size_bytes));
    }
    return test.kind == Kind::kInt64
               ? value.size_bytes == 8 && KeepsInteger(test, LoadLittle<int64_t>(bytes))
               : value.size_bytes == 4 && KeepsFloat(test, LoadLittle<float>(bytes));
  });
}

}  // namespace bulkhead

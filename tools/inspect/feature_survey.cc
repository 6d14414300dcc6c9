#include "tools/inspect/feature_survey.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/base/byte_size.h"
#include "server/base/element_type.h"
#include "tools/inspect/sample_rows.h"

namespace bulkhead::tools {
namespace {

std::string NumberText(double value) { return absl::StrFormat("%.6g", value); }

template <typename Text>
std::string RangeText(double low, double high, const Text& text) {
  return low == high ? text(low) : absl::StrCat(text(low), " to ", text(high));
}

// A list that varies in length, or a text, may be longer in records that were not looked at.
constexpr uint64_t kSpare = 2;

std::string SizeText(double bytes) { return FormatBytes(static_cast<uint64_t>(bytes)); }

}  // namespace

void FeatureSurvey::Take(const ::bulkhead::tensorflow::Feature& feature, const std::string& place) {
  uint64_t values = 0;
  std::string type = "empty";
  if (feature.has_bytes_list()) {
    type = "bytes";
    values = static_cast<uint64_t>(feature.bytes_list().value_size());
    for (const std::string& bytes : feature.bytes_list().value()) TakeBytes(bytes, place);
  } else if (feature.has_int64_list()) {
    type = "int64";
    values = static_cast<uint64_t>(feature.int64_list().value_size());
    for (const int64_t value : feature.int64_list().value()) {
      TakeNumber(static_cast<double>(value));
    }
  } else if (feature.has_float_list()) {
    type = "float";
    values = static_cast<uint64_t>(feature.float_list().value_size());
    for (const float value : feature.float_list().value()) TakeNumber(value);
  }
  least_values_ = records_ == 0 ? values : std::min(least_values_, values);
  most_values_ = std::max(most_values_, values);
  ++types_[type];
  ++records_;
}

void FeatureSurvey::TakeBytes(const std::string& bytes, const std::string& place) {
  if (!images_.Take(bytes, place)) {
    if (const auto tensor = SniffArray(bytes); tensor.has_value()) TakeTensor(*tensor);
  }
  const auto size = static_cast<double>(bytes.size());
  low_ = seen_ == 0 ? size : std::min(low_, size);
  high_ = seen_ == 0 ? size : std::max(high_, size);
  ++seen_;
}

void FeatureSurvey::TakeNumber(double value) {
  low_ = seen_ == 0 ? value : std::min(low_, value);
  high_ = seen_ == 0 ? value : std::max(high_, value);
  ++seen_;
}

void FeatureSurvey::TakeTensor(const StoredTensor& tensor) {
  // One of shape [0] is an empty one of any shape.
  const auto is_empty = [](const StoredTensor& one) {
    return one.shape.size() == 1 && one.shape[0] == 0;
  };
  if (tensors_ == 0) tensor_ = tensor;
  if (tensor.dtype != tensor_.dtype) return;
  rows_differ_ |= tensor.shape[0] != tensor_.shape[0];
  if (is_empty(tensor_)) tensor_.shape = tensor.shape;
  if (!is_empty(tensor) &&
      (tensor.shape.size() != tensor_.shape.size() ||
       !std::equal(tensor.shape.begin() + 1, tensor.shape.end(), tensor_.shape.begin() + 1))) {
    return;
  }
  ++tensors_;
  most_rows_ = std::max(most_rows_, static_cast<uint64_t>(tensor.shape[0]));
}

std::optional<StoredTensor> FeatureSurvey::tensor() const {
  if (tensors_ == 0 || tensors_ < seen_) return std::nullopt;
  StoredTensor one = tensor_;
  if (rows_differ_) one.shape[0] = -1;
  return one;
}

std::string FeatureSurvey::type() const {
  return absl::StrJoin(
      types_, " or ", [](std::string* out, const auto& type) { absl::StrAppend(out, type.first); });
}

std::string FeatureSurvey::values() const {
  return RangeText(static_cast<double>(least_values_), static_cast<double>(most_values_),
                   NumberText);
}

std::string FeatureSurvey::what() const {
  if (seen_ == 0) return "";
  if (types_.count("bytes") == 0) {
    return RangeText(low_, high_, NumberText);
  }
  const std::string sizes = RangeText(low_, high_, SizeText);
  if (images_.count() > 0) return absl::StrCat(images_.Text(), "; ", sizes);
  const std::optional<StoredTensor> one = tensor();
  if (!one.has_value()) return sizes;
  return absl::StrCat("tensors ", DTypeName(one->dtype), " [", absl::StrJoin(one->shape, ", "),
                      "]; ", sizes);
}

JsonObject FeatureSurvey::Json() const {
  JsonObject json;
  json.Add("type", type())
      .Add("records", records_)
      .Add("least_values", least_values_)
      .Add("most_values", most_values_);
  if (seen_ > 0) {
    const bool bytes = types_.count("bytes") > 0;
    json.Add(bytes ? "least_bytes" : "lowest", low_).Add(bytes ? "most_bytes" : "highest", high_);
  }
  if (const std::optional<StoredTensor> one = tensor(); one.has_value()) {
    json.Add("tensor",
             absl::StrCat(DTypeName(one->dtype), " [", absl::StrJoin(one->shape, ", "), "]"));
  }
  if (images_.count() > 0) json.Add("images", images_.Json());
  return json;
}

std::string Bound(absl::string_view what, uint64_t most) {
  return absl::StrCat(what, ": ", std::max<uint64_t>(1, kSpare * most));
}

std::string ShareText(uint64_t records, uint64_t all) {
  if (records == all) return "all";
  return absl::StrFormat("%.0f%%", 100.0 * static_cast<double>(records) / static_cast<double>(all));
}

}  // namespace bulkhead::tools

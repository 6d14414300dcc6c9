#include "tools/inspect/feature_survey.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/base/byte_size.h"
#include "tools/inspect/sample_rows.h"

namespace bulkhead::tools {
namespace {

std::string NumberText(double value) { return absl::StrFormat("%.6g", value); }

template <typename Number>
std::string RangeText(const Range<Number>& range, std::string (*text)(double)) {
  const auto low = static_cast<double>(range.low);
  const auto high = static_cast<double>(range.high);
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
      seen_.Take(static_cast<double>(value));
    }
  } else if (feature.has_float_list()) {
    type = "float";
    values = static_cast<uint64_t>(feature.float_list().value_size());
    for (const float value : feature.float_list().value()) seen_.Take(value);
  }
  values_.Take(values);
  ++types_[type];
}

void FeatureSurvey::TakeBytes(const std::string& bytes, const std::string& place) {
  if (!images_.Take(bytes, place)) {
    if (const auto tensor = SniffArray(bytes); tensor.has_value()) TakeTensor(*tensor);
  }
  seen_.Take(static_cast<double>(bytes.size()));
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
  if (tensors_ == 0 || tensors_ < seen_.count) return std::nullopt;
  StoredTensor one = tensor_;
  if (rows_differ_) one.shape[0] = -1;
  return one;
}

std::string FeatureSurvey::type() const {
  return absl::StrJoin(
      types_, " or ", [](std::string* out, const auto& type) { absl::StrAppend(out, type.first); });
}

std::string FeatureSurvey::values() const { return RangeText(values_, NumberText); }

std::string FeatureSurvey::what() const {
  if (seen_.count == 0) return "";
  if (types_.count("bytes") == 0) return RangeText(seen_, NumberText);
  const std::string sizes = RangeText(seen_, SizeText);
  if (images_.count() > 0) return absl::StrCat(images_.Text(), "; ", sizes);
  const std::optional<StoredTensor> one = tensor();
  if (!one.has_value()) return sizes;
  return absl::StrCat("tensors ", TensorText(*one), "; ", sizes);
}

JsonObject FeatureSurvey::Json() const {
  JsonObject json;
  json.Add("type", type())
      .Add("records", values_.count)
      .Add("least_values", values_.low)
      .Add("most_values", values_.high);
  if (seen_.count > 0) {
    const bool bytes = types_.count("bytes") > 0;
    json.Add(bytes ? "least_bytes" : "lowest", seen_.low)
        .Add(bytes ? "most_bytes" : "highest", seen_.high);
  }
  if (const std::optional<StoredTensor> one = tensor(); one.has_value()) {
    json.Add("tensor", TensorText(*one));
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

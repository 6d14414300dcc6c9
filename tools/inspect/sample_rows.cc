#include "tools/inspect/sample_rows.h"

#include <algorithm>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/base/element_type.h"
#include "server/base/record_name.h"
#include "server/source/tar/npy_array.h"
#include "tools/inspect/image_header.h"

namespace bulkhead::tools {
namespace {

constexpr size_t kMostTextBytes = 40;
constexpr int kMostValues = 4;  // of a list

// "17", "[1, 2, 3, 4, … 9 in all]".
template <typename List, typename Text>
std::string ListText(const List& values, const Text& text) {
  if (values.size() == 1) return text(values.Get(0));
  std::vector<std::string> shown;
  for (int i = 0; i < std::min(values.size(), kMostValues); ++i) {
    shown.push_back(text(values.Get(i)));
  }
  if (values.size() > kMostValues) shown.push_back(absl::StrCat("… ", values.size(), " in all"));
  return absl::StrCat("[", absl::StrJoin(shown, ", "), "]");
}

// A byte string for people: "JPEG 640 x 480 x 3", "tensor float32 [3, 4]", or its beginning,
// "'emu'".
std::string StringText(absl::string_view bytes) {
  const std::string image = ImageText(bytes);
  if (!image.empty()) return image;
  if (const std::optional<StoredTensor> tensor = SniffArray(bytes); tensor.has_value()) {
    return absl::StrCat("tensor ", TensorText(*tensor));
  }
  return absl::StrCat("'", absl::Utf8SafeCHexEscape(bytes.substr(0, kMostTextBytes)), "'",
                      bytes.size() > kMostTextBytes ? "…" : "");
}

std::string FeatureText(const ::bulkhead::tensorflow::Feature& feature) {
  if (feature.has_bytes_list()) return ListText(feature.bytes_list().value(), StringText);
  if (feature.has_int64_list()) {
    return ListText(feature.int64_list().value(),
                    [](int64_t value) { return absl::StrCat(value); });
  }
  return ListText(feature.float_list().value(),
                  [](float value) { return absl::StrFormat("%.6g", value); });
}

}  // namespace

void SampleRows::Add(const std::string& place, Values values) {
  if (!full()) rows_.emplace_back(place, std::move(values));
}

std::string SampleRows::Text() const {
  std::string text = rows_.empty() ? "" : "first samples:\n";
  for (const auto& [place, values] : rows_) {
    absl::StrAppend(&text, "  ", Printable(place), ": ",
                    absl::StrJoin(values, "; ",
                                  [](std::string* out, const auto& value) {
                                    absl::StrAppend(out, Printable(value.first), " ",
                                                    Printable(value.second));
                                  }),
                    "\n");
  }
  return text;
}

std::vector<JsonObject> SampleRows::Json() const {
  std::vector<JsonObject> rows;
  for (const auto& [place, values] : rows_) {
    JsonObject of_row;
    for (const auto& [name, value] : values) of_row.Add(name, value);
    rows.push_back(JsonObject().Add("place", place).Add("values", of_row));
  }
  return rows;
}

SampleRows::Values ValuesOf(const ::bulkhead::tensorflow::SequenceExample& example) {
  std::map<std::string, std::string> sorted;
  for (const auto& [name, feature] : example.context().feature()) {
    sorted[name] = FeatureText(feature);
  }
  for (const auto& [name, list] : example.feature_lists().feature_list()) {
    std::vector<std::string> shown;
    for (int i = 0; i < std::min(list.feature_size(), kMostValues); ++i) {
      shown.push_back(FeatureText(list.feature(i)));
    }
    if (list.feature_size() > kMostValues) {
      shown.push_back(absl::StrCat("… ", list.feature_size(), " steps"));
    }
    sorted[name] = absl::StrCat("[", absl::StrJoin(shown, ", "), "]");
  }
  return {sorted.begin(), sorted.end()};
}

std::optional<StoredTensor> SniffArray(absl::string_view bytes) {
  if (!IsNpy(bytes)) return SniffTensor(bytes);
  const auto array = ParseNpy(bytes);
  if (!array.ok() || array->dims.empty()) return std::nullopt;
  return StoredTensor{array->dtype, {array->dims.begin(), array->dims.end()}};
}

std::string TensorText(const StoredTensor& tensor) {
  return absl::StrCat(DTypeName(tensor.dtype), " [", absl::StrJoin(tensor.shape, ", "), "]");
}

}  // namespace bulkhead::tools

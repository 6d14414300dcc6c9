#include "tools/inspect/example_survey.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/record_name.h"

namespace bulkhead::tools {

void ExampleSurvey::Take(const ::bulkhead::tensorflow::SequenceExample& example,
                         const std::string& place) {
  ++records_;
  if (!first_.full()) first_.Add(place, ValuesOf(example));
  for (const auto& [name, feature] : example.context().feature()) {
    features_[name].Take(feature, place);
  }
  steps_.Take(example.feature_lists(), place);
}

std::string ExampleSurvey::Text() const {
  size_t width = 7;
  for (const auto& [name, feature] : features_) width = std::max(width, Printable(name).size());
  std::string text =
      absl::StrFormat("%-*s  %-6s  %-8s  %-5s  %s\n", width, "feature", "type", "values", "in", "");
  for (const auto& [name, feature] : features_) {
    absl::StrAppendFormat(&text, "%-*s  %-6s  %-8s  %-5s  %s\n", width, Printable(name),
                          feature.type(), feature.values(), ShareText(feature.records(), records_),
                          feature.what());
  }
  return absl::StrCat(features_.empty() ? "" : text, steps_.Text(records_), first_.Text());
}

JsonObject ExampleSurvey::Json() const {
  JsonObject features;
  for (const auto& [name, feature] : features_) features.Add(name, feature.Json());
  JsonObject json;
  json.Add("records_looked_at", records_).Add("features", features);
  if (!steps_.lists().empty()) json.Add("feature_lists", steps_.Json());
  return json.Add("first_samples", first_.Json());
}

}  // namespace bulkhead::tools

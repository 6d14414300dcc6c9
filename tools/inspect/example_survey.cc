#include "tools/inspect/example_survey.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/record_name.h"

namespace bulkhead::tools {

void StepSurvey::Take(const ::bulkhead::tensorflow::FeatureList& list, const std::string& place) {
  for (const auto& feature : list.feature()) step_.Take(feature, place);
  steps_.Take(static_cast<uint64_t>(list.feature_size()));
}

std::string StepSurvey::steps() const {
  return steps_.low == steps_.high ? absl::StrCat(steps_.high)
                                   : absl::StrCat(steps_.low, " to ", steps_.high);
}

std::string StepSurvey::Declaration(const std::string& axis) const {
  const std::string type = step_.type();
  const bool is_text = type == "bytes" && step_.images().count() == 0;
  if ((!is_text && type != "int64" && type != "float") || !step_.is_fixed()) return "";
  const uint64_t values = step_.most_values();
  if (values == 0) return "";
  return absl::StrCat("sequence: ", axis, ", ", type, ": {",
                      is_text ? Bound("max_bytes", step_.most_bytes()) + ", " : "", "shape: [-1",
                      values == 1 ? "" : absl::StrCat(", ", values), "], ",
                      Bound("max_count", steps_.high), "}");
}

JsonObject StepSurvey::Json() const {
  return JsonObject()
      .Add("records", steps_.count)
      .Add("least_steps", steps_.low)
      .Add("most_steps", steps_.high)
      .Add("step", step_.Json());
}

void StepSurveys::Take(const ::bulkhead::tensorflow::FeatureLists& lists,
                       const std::string& place) {
  std::optional<int> steps;
  for (const auto& [name, list] : lists.feature_list()) {
    lists_[name].Take(list, place);
    one_axis_ = one_axis_ && steps.value_or(list.feature_size()) == list.feature_size();
    steps = list.feature_size();
  }
}

std::string StepSurveys::Text(uint64_t records) const {
  if (lists_.empty()) return "";
  size_t width = 12;
  for (const auto& [name, list] : lists_) width = std::max(width, Printable(name).size());
  std::string text = absl::StrFormat("%-*s  %-9s  %-6s  %-8s  %-5s  %s\n", width, "feature list",
                                     "steps", "type", "values", "in", "");
  for (const auto& [name, list] : lists_) {
    absl::StrAppendFormat(&text, "%-*s  %-9s  %-6s  %-8s  %-5s  %s\n", width, Printable(name),
                          list.steps(), list.step().type(), list.step().values(),
                          ShareText(list.records(), records), list.step().what());
  }
  return text;
}

JsonObject StepSurveys::Json() const {
  JsonObject json;
  for (const auto& [name, list] : lists_) json.Add(name, list.Json());
  return json;
}

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

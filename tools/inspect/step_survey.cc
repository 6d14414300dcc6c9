#include "tools/inspect/step_survey.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/record_name.h"

namespace bulkhead::tools {

void StepSurvey::Take(const ::bulkhead::tensorflow::FeatureList& list, const std::string& place) {
  const auto steps = static_cast<uint64_t>(list.feature_size());
  for (const auto& feature : list.feature()) step_.Take(feature, place);
  least_steps_ = records_ == 0 ? steps : std::min(least_steps_, steps);
  most_steps_ = std::max(most_steps_, steps);
  ++records_;
}

std::string StepSurvey::steps() const {
  return least_steps_ == most_steps_ ? absl::StrCat(most_steps_)
                                     : absl::StrCat(least_steps_, " to ", most_steps_);
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
                      Bound("max_count", most_steps_), "}");
}

JsonObject StepSurvey::Json() const {
  return JsonObject()
      .Add("records", records_)
      .Add("least_steps", least_steps_)
      .Add("most_steps", most_steps_)
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

}  // namespace bulkhead::tools

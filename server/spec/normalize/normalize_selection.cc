#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/element_type.h"
#include "server/base/nearest_name.h"
#include "server/spec/normalize/normalize_parts.h"
#include "server/spec/record_files.h"
#include "server/spec/source_signature.h"
#include "server/stages/declaration/stage_checks.h"

namespace bulkhead {
namespace {

// How far shares may be from summing to 1: what decimal fractions lose as doubles, and no more.
constexpr double kShareTolerance = 1e-9;

std::string NumberText(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.12g", value);
  return text;
}

template <typename Values>
void SortUnique(Values& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

void CheckBounds(const v1::Condition& condition, const std::string& path, SpecProblems& problems) {
  if (condition.has_min() && std::isnan(condition.min())) {
    problems.Add(path + ".min", "is not a number");
  } else if (condition.has_max() && std::isnan(condition.max())) {
    problems.Add(path + ".max", "is not a number");
  } else if (condition.has_min() && condition.has_max() && condition.min() > condition.max()) {
    problems.Add(path + ".min", "is ", NumberText(condition.min()), ", above max, ",
                 NumberText(condition.max()), ": nothing could pass");
  }
}

// That the tests of a condition are ones for the feature's kind.
void CheckTests(const v1::Condition& condition, const FeatureSignature& feature,
                const std::string& path, SpecProblems& problems) {
  const bool is_text = feature.kind == FeatureSignature::Kind::kEncoded;
  const std::map<std::string, bool> numeric = {{"in", !condition.in().empty()},
                                               {"not_in", !condition.not_in().empty()},
                                               {"min", condition.has_min()},
                                               {"max", condition.has_max()}};
  const std::map<std::string, bool> textual = {{"text_in", !condition.text_in().empty()},
                                               {"text_not_in", !condition.text_not_in().empty()}};
  const auto given = [](const auto& test) { return test.second; };
  if (std::none_of(numeric.begin(), numeric.end(), given) &&
      std::none_of(textual.begin(), textual.end(), given)) {
    problems.Add(path, is_text ? "tests nothing: give text_in or text_not_in"
                               : "tests nothing: give in, not_in, min or max");
  }
  for (const auto& [name, is_given] : is_text ? numeric : textual) {
    if (!is_given) continue;
    problems.Add(absl::StrCat(path, ".", name),
                 is_text ? absl::StrCat("tests numbers, but `", feature.name,
                                        "` is a byte string: use text_in or text_not_in")
                         : absl::StrCat("tests byte strings, but `", feature.name, "` is ",
                                        DTypeName(feature.dtype), ": use in, not_in, min or max"));
  }
}

void CheckCondition(const v1::Source& source, const std::vector<FeatureSignature>& features,
                    const v1::Condition& condition, const std::string& path,
                    SpecProblems& problems) {
  CheckBounds(condition, path, problems);
  const std::string place = path + ".feature";
  if (condition.feature().empty()) {
    problems.Add(place, "is required: the feature to test");
    return;
  }
  const FeatureSignature* const found = FindFeature(features, condition.feature());
  if (found == nullptr) {
    std::vector<std::string> names;
    for (const FeatureSignature& feature : features) names.push_back(feature.name);
    problems.Add(place, UnknownName("feature", condition.feature(), names));
    return;
  }
  const bool is_text = found->kind == FeatureSignature::Kind::kEncoded;
  if (is_text && !HasRecordFiles(source) && found->name != "path") {
    problems.Add(place, "`", found->name,
                 "` is an image, and images are not read while indexing; a condition may stand on "
                 "a label or on path");
  } else if (!found->shape.empty()) {
    problems.Add(place, "`", found->name, "` has the shape [", absl::StrJoin(found->shape, ","),
                 "]; a condition needs a single value");
  } else {
    CheckTests(condition, *found, path, problems);
  }
}

void CheckRange(const v1::Source& source, const std::string& path, SpecProblems& problems) {
  if (source.range().size() <= kMaxSelectedRange) return;
  problems.Add(path, "cannot be worked out for a range of more than ", kMaxSelectedRange,
               " integers; use skip and take");
}

}  // namespace

void NormalizeFilter(const v1::Source& source,
                     const google::protobuf::Map<std::string, v1::Feature>& features,
                     google::protobuf::RepeatedPtrField<v1::Condition>& filter,
                     const std::string& path, SpecProblems& problems) {
  if (filter.empty()) return;
  CheckRange(source, path, problems);
  const auto signatures = SourceFeatures(source, features);
  for (int i = 0; i < filter.size(); ++i) {
    v1::Condition& condition = filter[i];
    SortUnique(*condition.mutable_in());
    SortUnique(*condition.mutable_not_in());
    SortUnique(*condition.mutable_text_in());
    SortUnique(*condition.mutable_text_not_in());
    if (!signatures.ok()) continue;
    CheckCondition(source, *signatures, condition, absl::StrCat(path, "[", i, "]"), problems);
  }
}

void CheckSplit(const v1::Source& source, const v1::Split& split, const std::string& path,
                SpecProblems& problems) {
  CheckRange(source, path, problems);
  const std::map<std::string, double> parts(split.parts().begin(), split.parts().end());
  if (parts.empty()) {
    problems.Add(path + ".parts",
                 "is required: shares by name, such as {train: 0.9, validation: 0.1}");
    return;
  }
  double sum = 0;
  std::vector<std::string> names;
  bool are_shares = true;
  for (const auto& [name, share] : parts) {
    names.push_back(name);
    sum += share;
    if (share > 0 && share <= 1) continue;
    are_shares = false;
    problems.Add(absl::StrCat(path, ".parts.", name), "is ", NumberText(share),
                 "; a share is above 0 and at most 1");
  }
  if (are_shares && !(std::abs(sum - 1) <= kShareTolerance)) {
    problems.Add(path + ".parts", "sum to ", NumberText(sum),
                 ", but must sum to 1: give the rest a name, too");
  }
  if (split.use().empty()) {
    problems.Add(path + ".use", "is required: the part that is read, one of ",
                 absl::StrJoin(names, ", "));
  } else if (parts.count(split.use()) == 0) {
    problems.Add(path + ".use", UnknownName("part", split.use(), names));
  }
}

void NormalizeExclude(v1::PipelineSpec& spec, SpecProblems& problems) {
  const uint64_t sources = static_cast<uint64_t>(spec.source().mixture().sources_size());
  for (int i = 0; i < spec.exclude_size(); ++i) {
    const std::string& name = spec.exclude(i);
    const std::string path = absl::StrCat("exclude[", i, "]");
    uint64_t source = 0;
    if (name.empty()) {
      problems.Add(path, "is empty: name a record, as `bulkhead scan` does");
    } else if (spec.source().has_mixture() &&
               (!absl::SimpleAtoi(name.substr(0, name.find(':')), &source) || source >= sources)) {
      problems.Add(path, "`", name,
                   "` begins with no number of a source: in a mixture write 0:NAME for a record of "
                   "its first source");
    }
  }
  SortUnique(*spec.mutable_exclude());
}

}  // namespace bulkhead

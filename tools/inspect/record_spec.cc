#include "tools/inspect/record_spec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/base/nearest_name.h"
#include "tools/inspect/example_survey.h"
#include "tools/inspect/first_records.h"
#include "tools/inspect/spec_text.h"

namespace bulkhead::tools {
namespace {

using Features = std::map<std::string, FeatureSurvey>;

// Enough to see whether records differ.
constexpr uint64_t kRecords = 100;
// A label that varies in length, or a text, may be longer in records that were not looked at.
constexpr uint64_t kSpare = 2;

// Names under which data sets keep their images and labels, the commonest first.
constexpr const char* kImageNames[] = {"image",       "image/encoded", "img_raw", "image_raw",
                                       "image_bytes", "jpeg",          "jpg",     "img",
                                       "encoded",     "data"};
constexpr const char* kLabelNames[] = {
    "label", "image/class/label", "labels", "class", "class_id", "target", "y"};

bool IsOneString(const FeatureSurvey& feature) {
  return feature.type() == "bytes" && feature.values() == "1";
}

// The feature that holds images: by its name, or the only one whose values begin as images do.
std::string ImageOf(const Features& features) {
  for (const char* name : kImageNames) {
    const auto found = features.find(name);
    if (found != features.end() && IsOneString(found->second)) return name;
  }
  std::vector<std::string> images;
  for (const auto& [name, feature] : features) {
    if (IsOneString(feature) && feature.images().count() > 0) images.push_back(name);
  }
  return images.size() == 1 ? images[0] : "";
}

// How the feature is read, as YAML; empty when it is not: records differ in their types, or have
// several strings.
std::string TypeOf(const FeatureSurvey& feature, uint64_t records) {
  const bool everywhere = feature.records() == records;
  if (IsOneString(feature)) {
    if (!everywhere || feature.images().count() > 0) return "";
    return absl::StrCat("bytes: {max_bytes: ", std::max<uint64_t>(1, kSpare * feature.most_bytes()),
                        "}");
  }
  if (feature.type() != "int64" && feature.type() != "float") return "";
  if (everywhere && feature.values() == "1") return absl::StrCat(feature.type(), ": {}");
  if (everywhere && feature.is_fixed() && feature.most_values() > 0) {
    return absl::StrCat(feature.type(), ": {shape: [", feature.most_values(), "]}");
  }
  return absl::StrCat(feature.type(), ": {shape: [-1], max_count: ",
                      std::max<uint64_t>(1, kSpare * feature.most_values()), "}");
}

std::string LabelOf(const Features& features, uint64_t records) {
  for (const char* name : kLabelNames) {
    const auto found = features.find(name);
    if (found != features.end() && !TypeOf(found->second, records).empty()) return name;
  }
  return "";
}

std::string ChosenName(const GuessOptions& options, const std::string& ours) {
  const auto it = options.features.find(ours);
  return it == options.features.end() ? "" : it->second;
}

std::string NotThere(const std::string& name, const Features& features) {
  if (name.empty() || features.count(name) > 0) return "";
  std::vector<std::string> keys;
  for (const auto& [key, feature] : features) keys.push_back(key);
  const std::string near = NearestName(name, keys);
  return absl::StrCat(" (there is no '", name, "'",
                      near.empty() ? "" : absl::StrCat("; did you mean '", near, "'?"), ")");
}

}  // namespace

absl::StatusOr<std::string> RecordSpec(const std::vector<std::string>& patterns,
                                       const std::string& first, const GuessOptions& options) {
  ExampleSurvey survey;
  const auto read = ReadFirstRecords(first, kRecords,
                                     [&](uint64_t, const ::bulkhead::tensorflow::Example& example) {
                                       survey.Take(example, first);
                                     });
  if (!read.ok() && survey.records() == 0) return read.status();
  const Features& features = survey.features();
  std::string image = ChosenName(options, "image");
  if (image.empty()) image = ImageOf(features);
  std::string label = ChosenName(options, "label");
  const std::string wrong = absl::StrCat(NotThere(image, features), NotThere(label, features));
  if (image.empty() || !wrong.empty()) {
    std::string list;
    for (const auto& [name, what] : features) {
      absl::StrAppend(&list, "\n  ", name, ": ", what.type(), " x ", what.values());
    }
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                     absl::StrCat(first, ": cannot tell which feature is the image", wrong,
                                  "; name it with `bulkhead stream --feature image=NAME [--feature "
                                  "label=NAME]`. Its first records hold:",
                                  list.empty() ? " nothing" : list));
  }
  if (label.empty()) label = LabelOf(features, survey.records());
  const std::string files =
      absl::StrJoin(patterns, ", ", [](std::string* out, const std::string& p) {
        absl::StrAppend(out, Quoted(AbsolutePath(p)));
      });
  std::string source =
      absl::StrCat("source:\n  tfrecord: {files: [", files,
                   "]}\nfeatures:\n  image: {key: ", Quoted(image), ", bytes: {}}\n");
  if (!label.empty()) {
    const std::string type = TypeOf(features.at(label), survey.records());
    if (type.empty()) {
      return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                       absl::StrCat(first, ": '", label, "' is ", features.at(label).type(), " x ",
                                    features.at(label).values(), ", which cannot be a label"));
    }
    absl::StrAppend(&source, "  label: {key: ", Quoted(label), ", ", type, "}\n");
  }
  // A global order over compressed files inflates megabytes for each sample, so those are read in
  // their own order.
  const bool compressed = read.ok() && *read;
  return WithStages(source, label.empty() ? "" : "label", options,
                    compressed ? "sequential" : "global");
}

}  // namespace bulkhead::tools

#include "tools/inspect/record_spec.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/base/limits.h"
#include "server/base/nearest_name.h"
#include "server/spec/source_signature.h"
#include "server/spec/tar_features.h"
#include "tools/common/json.h"
#include "tools/inspect/example_survey.h"
#include "tools/inspect/first_records.h"
#include "tools/inspect/spec_text.h"
#include "tools/inspect/tar_samples.h"

namespace bulkhead::tools {
namespace {

using Features = std::map<std::string, FeatureSurvey>;

constexpr char kOthersComment[] = "  # Also in the records; to read one, take its # away:\n";

// Enough to see whether records differ.
constexpr uint64_t kRecords = 100;

// The classes of the boxes, as TensorFlow's Object Detection API writes them.
constexpr char kObjectLabels[] = "image/object/class/label";
// Names under which data sets keep their images and labels, the commonest first.
constexpr const char* kImageNames[] = {"image",       "image/encoded", "img_raw", "image_raw",
                                       "image_bytes", "jpeg",          "jpg",     "img",
                                       "encoded",     "data"};
constexpr const char* kLabelNames[] = {
    "label", "image/class/label", "labels", "class",      "class_id",   "target",
    "y",     kObjectLabels,       "cls",    "json:label", "json:class", "json:class_id"};

bool IsOneString(const FeatureSurvey& feature) {
  return feature.type() == "bytes" && feature.values() == "1";
}

// The features whose values begin as images do.
std::vector<std::string> AllImages(const Features& features) {
  std::vector<std::string> images;
  for (const auto& [name, feature] : features) {
    if (IsOneString(feature) && feature.images().count() > 0) images.push_back(name);
  }
  return images;
}

// The feature that holds images: by its name, or the only one whose values begin as images do.
std::string ImageOf(const Features& features) {
  for (const char* name : kImageNames) {
    const auto found = features.find(name);
    if (found != features.end() && IsOneString(found->second)) return name;
  }
  const std::vector<std::string> images = AllImages(features);
  return images.size() == 1 ? images[0] : "";
}

// The only feature that holds equally many images in every record, if there is one.
std::string ImageListOf(const Features& features, uint64_t records) {
  std::string list;
  for (const auto& [name, feature] : features) {
    const bool is_list = feature.type() == "bytes" && feature.images().count() > 0 &&
                         feature.is_fixed() && feature.records() == records &&
                         feature.most_values() > 1 && feature.most_values() <= kMaxFrames;
    if (!is_list) continue;
    if (!list.empty()) return "";
    list = name;
  }
  return list;
}

// The endings of the images of a tar: all, if a sample has one of them; else the usual ones.
std::string ImagesOfTar(const Features& features, uint64_t samples) {
  std::vector<std::string> images = AllImages(features);
  uint64_t members = 0;
  for (const std::string& ending : images) members += features.at(ending).records();
  if (members > samples) {
    const std::vector<absl::string_view> usual =
        absl::StrSplit(UsualTarFeatures().at("image").key(), ';');
    std::erase_if(images, [&](const std::string& ending) {
      return std::find(usual.begin(), usual.end(), ending) == usual.end();
    });
  }
  return absl::StrJoin(images, ";");
}

// How byte strings are read, one or a list, or serialized tensors.
std::string TypeOfBytes(const FeatureSurvey& feature, bool everywhere) {
  const std::string max_bytes = Bound("max_bytes", feature.most_bytes());
  const std::optional<StoredTensor> tensor = feature.tensor();
  if (tensor.has_value() && IsOneString(feature)) {
    const bool variable = !everywhere || tensor->shape[0] < 1;
    std::vector<int64_t> shape = tensor->shape;
    if (variable) shape[0] = -1;
    return absl::StrCat("tensor: {dtype: ", DTypeName(tensor->dtype), ", shape: [",
                        absl::StrJoin(shape, ", "), "]",
                        variable ? ", " + Bound("max_count", feature.most_rows()) : "",
                        everywhere ? "" : ", allow_missing: true", "}");
  }
  if (feature.images().count() > 0) return "";
  if (IsOneString(feature)) return everywhere ? absl::StrCat("bytes: {", max_bytes, "}") : "";
  if (everywhere && feature.is_fixed() && feature.most_values() > 0) {
    return absl::StrCat("bytes: {", max_bytes, ", shape: [", feature.most_values(), "]}");
  }
  return absl::StrCat("bytes: {", max_bytes, ", shape: [-1], ",
                      Bound("max_count", feature.most_values()), "}");
}

// How the feature is read, as YAML; empty when it is not: records differ in their types, or it is
// an image.
std::string TypeOf(const FeatureSurvey& feature, uint64_t records) {
  const bool everywhere = feature.records() == records;
  if (feature.type() == "bytes") return TypeOfBytes(feature, everywhere);
  if (feature.type() != "int64" && feature.type() != "float") return "";
  if (everywhere && feature.values() == "1") return absl::StrCat(feature.type(), ": {}");
  if (everywhere && feature.is_fixed() && feature.most_values() > 0) {
    return absl::StrCat(feature.type(), ": {shape: [", feature.most_values(), "]}");
  }
  return absl::StrCat(feature.type(), ": {shape: [-1], ", Bound("max_count", feature.most_values()),
                      "}");
}

// What a spec calls a feature: the last part of its name, which has no blanks or brackets.
std::string NameInSpec(const std::string& key) {
  std::string name = key.substr(key.find_last_of("/:") + 1);
  for (char& c : name) {
    if (!absl::ascii_isalnum(c)) c = '_';
  }
  return name;
}

// The lists of steps, by the names that a spec gives them, with what each is: "{key: …}".
std::map<std::string, std::string> StepFeatures(const StepSurveys& steps) {
  std::map<std::string, std::string> features;
  for (const auto& [key, list] : steps.lists()) {
    const std::string name = NameInSpec(key);
    const std::string type = list.Declaration(steps.one_axis() ? "time" : name);
    if (!type.empty()) features[name] = absl::StrCat("{key: ", Quoted(key), ", ", type, "}");
  }
  return features;
}

// A spec for records that hold lists of steps and no image: it reads the lists, and the context as
// far as it has a static size.
std::string SequenceSpec(absl::string_view files, const ExampleSurvey& survey,
                         const GuessOptions& options, absl::string_view order) {
  std::map<std::string, std::string> features = StepFeatures(survey.steps());
  for (const auto& [key, feature] : survey.features()) {
    const std::string type = TypeOf(feature, survey.records());
    if (type.empty()) continue;
    features.emplace(NameInSpec(key), absl::StrCat("{key: ", Quoted(key), ", ", type, "}"));
  }
  std::string text = absl::StrCat("source:\n  tfrecord: {files: [", files, "]}\nfeatures:\n");
  for (const auto& [name, type] : features) absl::StrAppend(&text, "  ", name, ": ", type, "\n");
  return absl::StrCat(text, "batch: {size: ", options.batch, "}\norder: {", order,
                      ": {}}\nseed: 1\nepochs: 1\n");
}

// The features that the spec leaves out, as comments: whoever wants one takes the `#` away.
std::string Others(const Features& features, const std::set<std::string>& used, uint64_t records,
                   const StepSurveys& steps) {
  std::string lines;
  for (const auto& [key, feature] : features) {
    const std::string type = used.count(key) > 0 ? "" : TypeOf(feature, records);
    if (type.empty()) continue;
    absl::StrAppend(&lines, "  # ", NameInSpec(key), ": {key: ", Quoted(key), ", ", type, "}\n");
  }
  for (const auto& [name, type] : StepFeatures(steps)) {
    absl::StrAppend(&lines, "  # ", name, ": ", type, "\n");
  }
  return lines.empty() ? "" : kOthersComment + lines;
}

// Whether there may be one whole number for each box: records without boxes have a list of no type.
bool AreObjectLabels(const Features& features, const std::string& name) {
  const auto found = features.find(name);
  return name == kObjectLabels && found != features.end() &&
         (found->second.type() == "int64" || found->second.most_values() == 0);
}

// The most boxes of a record, if records hold the four lists of a `boxes` feature.
std::optional<uint64_t> MostBoxes(const Features& features) {
  uint64_t most = 0;
  for (const absl::string_view side : kBoxSides) {
    const auto found = features.find(absl::StrCat(kBoxesKey, "/", side));
    if (found == features.end()) return std::nullopt;
    if (found->second.type() != "float" && found->second.most_values() > 0) return std::nullopt;
    most = std::max(most, found->second.most_values());
  }
  return most;
}

// Augments boxes with their images. `labels`: there is a label for each box.
std::string BoxStages(bool labels, const GuessOptions& options) {
  return absl::StrCat(
      "  - boxes: {format: xyxy, relative: true}\n  - random_iou_crop: {}\n"
      "  - random_horizontal_flip: {}\n  - resize: {size: ",
      options.size, "}\n  - sanitize_boxes: {", labels ? "with: label" : "", "}\n");
}

// Joins the images of a list.
std::string ListStages(const GuessOptions& options) {
  return absl::StrCat("  - random_resized_crop: {size: ", options.size,
                      "}\n  - random_horizontal_flip: {}\n"
                      "  - concat: {inputs: image, output: image}\n");
}

std::string LabelOf(const Features& features, uint64_t records) {
  for (const char* name : kLabelNames) {
    const auto found = features.find(name);
    if (found == features.end() || TypeOf(found->second, records).empty()) continue;
    if (found->second.type() != "bytes" || IsOneString(found->second)) return name;
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
                                       const InspectedFile& first, const GuessOptions& options,
                                       std::set<std::string>* others) {
  ExampleSurvey survey;
  const auto read = ReadFirstRecords(
      first, kRecords, [&](uint64_t, const ::bulkhead::tensorflow::SequenceExample& example) {
        survey.Take(example, first.name());
      });
  if (!read.ok() && survey.records() == 0) return read.status();
  const Features& features = survey.features();
  std::string image = ChosenName(options, "image");
  const bool is_tar = IsTar(first);
  if (image.empty()) {
    image = is_tar ? ImagesOfTar(features, survey.records()) : ImageOf(features);
  }
  if (image.empty() && !is_tar) image = ImageListOf(features, survey.records());
  const std::string files =
      absl::StrJoin(patterns, ", ", [](std::string* out, const std::string& p) {
        absl::StrAppend(out, Quoted(AbsolutePath(p)));
      });
  // A global order over compressed files inflates megabytes for each sample, so those are read in
  // their own order.
  const char* const order = read.ok() && *read ? "sequential" : "global";
  if (image.empty() && !StepFeatures(survey.steps()).empty()) {
    return SequenceSpec(files, survey, options, order);
  }
  const std::vector<std::string> images = absl::StrSplit(image, ';');
  std::string label = ChosenName(options, "label");
  const std::string wrong = absl::StrCat(NotThere(images[0], features), NotThere(label, features));
  if (image.empty() || !wrong.empty()) {
    std::string list;
    for (const auto& [name, what] : features) {
      absl::StrAppend(&list, "\n  ", name, ": ", what.type(), " x ", what.values());
    }
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                     absl::StrCat(first.name(), ": cannot tell which feature is the image", wrong,
                                  "; name it with `bulkhead stream --feature image=NAME [--feature "
                                  "label=NAME]`. Its first records hold:",
                                  list.empty() ? " nothing" : list));
  }
  const std::optional<uint64_t> boxes = MostBoxes(features);
  if (label.empty() && boxes.has_value() && AreObjectLabels(features, kObjectLabels)) {
    label = kObjectLabels;
  }
  if (label.empty()) label = LabelOf(features, survey.records());
  const bool is_list = !is_tar && features.at(image).most_values() > 1;
  std::string source = absl::StrCat(
      "source:\n  ", is_tar ? "tar" : "tfrecord", ": {files: [", files,
      "]}\nfeatures:\n  image: {key: ", Quoted(image), ", bytes: {",
      is_list ? absl::StrCat("shape: [", features.at(image).most_values(), "]") : "", "}}\n");
  const std::string bound = Bound("max_count", boxes.value_or(0));
  if (boxes.has_value()) absl::StrAppend(&source, "  boxes: {boxes: {", bound, "}}\n");
  if (!label.empty()) {
    const std::string type = boxes.has_value() && AreObjectLabels(features, label)
                                 ? absl::StrCat("int64: {shape: [-1], ", bound, "}")
                                 : TypeOf(features.at(label), survey.records());
    if (type.empty()) {
      return MakeError(
          absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
          absl::StrCat(first.name(), ": '", label, "' is ", features.at(label).type(), " x ",
                       features.at(label).values(), ", which cannot be a label"));
    }
    absl::StrAppend(&source, "  label: {key: ", Quoted(label), ", ", type, "}\n");
  }
  std::set<std::string> used(images.begin(), images.end());
  used.insert(label);
  if (boxes.has_value()) {
    for (const absl::string_view side : kBoxSides) used.insert(absl::StrCat(kBoxesKey, "/", side));
  }
  if (others != nullptr) {
    for (const auto& [key, feature] : features) {
      if (used.count(key) == 0) others->insert(key);
    }
    for (const auto& [key, list] : survey.steps().lists()) others->insert(key);
  }
  absl::StrAppend(&source, Others(features, used, survey.records(), survey.steps()));
  const std::string outputs =
      absl::StrCat(boxes.has_value() ? "boxes" : "",
                   boxes.has_value() && !label.empty() ? ", " : "", label.empty() ? "" : "label");
  return WithStages(source, outputs, options, order,
                    is_list             ? ListStages(options)
                    : boxes.has_value() ? BoxStages(AreObjectLabels(features, label), options)
                                        : "");
}

}  // namespace bulkhead::tools

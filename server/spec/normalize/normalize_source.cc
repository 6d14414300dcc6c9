#include <algorithm>
#include <climits>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/base/class_names.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/base/record_name.h"
#include "server/spec/checked_math.h"
#include "server/spec/declared_options.h"
#include "server/spec/normalize/normalize_parts.h"
#include "server/spec/record_files.h"
#include "server/spec/source_signature.h"
#include "server/spec/tar_features.h"
#include "server/stages/declaration/stage_checks.h"

namespace bulkhead {
namespace {

constexpr uint64_t kMaxRange = static_cast<uint64_t>(INT64_MAX);

bool HasNul(const std::string& text) { return text.find('\0') != std::string::npos; }

// That the system can take it as a file's name, so that nobody follows it in vain.
void CheckIsFileName(const std::string& value, const std::string& path, SpecProblems& problems) {
  if (HasNul(value)) problems.Add(path, "holds a zero byte, which no file name can");
  if (value.size() >= PATH_MAX) {
    problems.Add(path, "has ", value.size(), " bytes; a path has at most ", PATH_MAX - 1);
  }
  if (LooksLikeUrl(value)) {
    problems.Add(path, Printable(value),
                 " is neither a path nor a URL that is known here; URLs begin with s3://, gs://, "
                 "https:// or http://, and a path of that name with ./");
  }
}

// That the URL `value` of an object or of several is one.
void CheckUrl(const std::string& value, const std::string& path, SpecProblems& problems) {
  if (const auto url = ParseObjectUrl(value); !url.ok()) {
    problems.Add(path, std::string(url.status().message()));
  }
}

// The URL of a folder of objects.
void CheckFolderUrl(const std::string& value, const std::string& path, SpecProblems& problems) {
  const auto url = ParseFolderUrl(value);
  if (url.ok() && !url->is_bucket()) {
    problems.Add(path, ShownUrl(value),
                 ": servers of http have no listing; write an image_list of URLs, or of paths "
                 "beside the list's own URL");
  } else if (!url.ok()) {
    problems.Add(path, std::string(url.status().message()));
  } else if (url->key.find_first_of("*?") != url->key.npos) {
    problems.Add(path, ShownUrl(value),
                 ": has a wildcard, and an image_folder is one folder, with all below it; write "
                 "the folder's URL");
  }
}

// The URL of one object.
void CheckOneUrl(const std::string& value, const std::string& path, SpecProblems& problems) {
  CheckUrl(value, path, problems);
  const auto url = ParseObjectUrl(value);
  if (url.ok() && url->is_bucket() && url->key.find_first_of("*?[") != url->key.npos) {
    problems.Add(path, ShownUrl(value), ": is to be one object; wildcards are not read here");
  }
}

void CheckPath(const std::string& value, const std::string& path, absl::string_view what,
               SpecProblems& problems) {
  if (value.empty()) {
    problems.Add(path, "is required: ", what);
  } else {
    CheckIsFileName(value, path, problems);
  }
}

void CheckPattern(const std::string& value, const std::string& path, SpecProblems& problems) {
  if (!IsObjectUrl(value)) {
    CheckPath(value, path, "a path or a glob", problems);
  } else {
    CheckUrl(value, path, problems);
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(value, '/');
  if (std::find(parts.begin(), parts.end(), "**") != parts.end()) {
    problems.Add(path, "has `**`, which is not supported: name each level of folders with *");
  }
}

void CheckName(const std::string& name, const std::string& path, SpecProblems& problems) {
  if (!IsFeatureName(name)) {
    problems.Add(path, "`", name.substr(0, kMaxNameBytes),
                 "` cannot be a feature's name: a letter or _ first, then letters, digits and _ - "
                 "/ . (at most ",
                 kMaxNameBytes, "); `key:` names it as the record does");
  }
}

// `Files` has patterns: TfRecordSource, TarSource.
template <typename Files>
void NormalizeRecordFiles(Files& source, const std::string& path, SpecProblems& problems) {
  NormalizeOptions(source, path, problems);
  for (int i = 0; i < source.files_size(); ++i) {
    CheckPattern(source.files(i), absl::StrCat(path, ".files[", i, "]"), problems);
  }
}

// None of the names of classes at `path` is empty or given twice, and all can be told.
void CheckClassNames(const google::protobuf::RepeatedPtrField<std::string>& classes,
                     const std::string& path, SpecProblems& problems) {
  std::set<std::string> names;
  for (int i = 0; i < classes.size(); ++i) {
    if (classes.Get(i).empty()) problems.Add(absl::StrCat(path, "[", i, "]"), "is empty");
    if (!names.insert(classes.Get(i)).second) {
      problems.Add(absl::StrCat(path, "[", i, "]"), "names `", classes.Get(i),
                   "` again; each class has one number");
    }
  }
  if (!IsTellable({{"", {classes.begin(), classes.end()}}})) {
    problems.Add(path, "has more than 1 MiB of names; give the labels as numbers");
  }
}

// Names of classes, of a list or a folder; those of a file are looked at when it is read. `labeled`
// says that there are integer labels.
template <typename Files>
void CheckClasses(const Files& source, bool labeled, const std::string& source_path,
                  SpecProblems& problems) {
  const auto& classes = source.classes();
  if (!source.classes_file().empty()) {
    const std::string path = source_path + ".classes_file";
    if (IsObjectUrl(source.classes_file())) {
      CheckOneUrl(source.classes_file(), path, problems);
    } else {
      CheckPath(source.classes_file(), path, "the file with a name a line", problems);
    }
    if (!classes.empty()) problems.Add(path, "replaces `classes`; give only one of them");
    if (!labeled) problems.Add(path, "names classes, but there are no labels of type int64");
    return;
  }
  const std::string path = source_path + ".classes";
  if (classes.empty()) return;
  if (!labeled) problems.Add(path, "names classes, but there are no labels of type int64");
  CheckClassNames(classes, path, problems);
}

void NormalizeList(v1::ImageListSource& source, SpecProblems& problems) {
  const std::string path = "source.image_list";
  NormalizeOptions(source, path, problems);
  if (source.has_frames()) NormalizeOptions(*source.mutable_frames(), path + ".frames", problems);
  if (source.entries().empty() && IsObjectUrl(source.path())) {
    CheckOneUrl(source.path(), path + ".path", problems);
  } else if (source.entries().empty()) {
    CheckPath(source.path(), path + ".path", "the list's file (or `entries`, its lines)", problems);
  } else if (!source.path().empty()) {
    problems.Add(path + ".entries", "replaces `path`; give only one of them");
  }
  if (source.unlabeled()) {
    if (!source.labels().empty()) {
      problems.Add(path + ".labels", "names label columns, but `unlabeled` says there are none");
    }
    if (source.label_dtype() != v1::DTYPE_UNSPECIFIED) {
      problems.Add(path + ".label_dtype", "describes labels, but `unlabeled` says there are none");
    }
  } else {
    if (source.labels().empty()) source.add_labels("label");
    if (source.label_dtype() == v1::DTYPE_UNSPECIFIED) source.set_label_dtype(v1::DTYPE_INT64);
  }
  CheckClasses(source, source.label_dtype() == v1::DTYPE_INT64, path, problems);
  std::set<std::string> names = {"path"};
  for (const auto* columns : {&source.images(), &source.labels()}) {
    const std::string field = columns == &source.images() ? ".images" : ".labels";
    for (int i = 0; i < columns->size(); ++i) {
      const std::string place = absl::StrCat(path, field, "[", i, "]");
      CheckName(columns->Get(i), place, problems);
      if (!names.insert(columns->Get(i)).second) {
        problems.Add(place, "`", columns->Get(i), "` is the name of another feature",
                     columns->Get(i) == "path" ? " (always given)" : "");
      }
    }
  }
}

void NormalizeFolder(v1::ImageFolderSource& source, SpecProblems& problems) {
  const std::string path = "source.image_folder";
  NormalizeOptions(source, path, problems);
  if (source.has_frames()) NormalizeOptions(*source.mutable_frames(), path + ".frames", problems);
  if (IsObjectUrl(source.path())) {
    CheckFolderUrl(source.path(), path + ".path", problems);
  } else {
    CheckIsFileName(source.path(), path + ".path", problems);
  }
  std::set<std::string> extensions;
  for (int i = 0; i < source.extensions_size(); ++i) {
    const std::string& extension = source.extensions(i);
    if (extension.empty() || extension.find_first_of("./") != std::string::npos ||
        HasNul(extension)) {
      problems.Add(absl::StrCat(path, ".extensions[", i, "]"),
                   "must be a file ending without the dot, such as jpg");
    }
    extensions.insert(absl::AsciiStrToLower(extension));
  }
  if (extensions.empty()) {
    extensions.insert(std::begin(kImageExtensions), std::end(kImageExtensions));
  }
  CheckClasses(source, !source.unlabeled(), path, problems);
  source.clear_extensions();
  for (const std::string& extension : extensions) source.add_extensions(extension);
}

void NormalizeRange(v1::RangeSource& source, SpecProblems& problems) {
  NormalizeOptions(source, "source.range", problems);
  if (source.size() > kMaxRange) {
    problems.Add("source.range.size", "is over the limit of ", kMaxRange);
  }
}

// A default is one value for all elements, or one for each of them.
template <typename Typed>
void CheckDefault(const Typed& feature, const std::string& path, SpecProblems& problems) {
  if (feature.default_().empty()) return;
  const auto& shape = feature.shape();
  if (std::any_of(shape.begin(), shape.end(), [](int64_t extent) { return extent < 0; })) {
    problems.Add(path + ".default",
                 "needs a fixed shape: a record that lacks a variable feature has an empty one");
    return;
  }
  const uint64_t elements = CheckedCount::Product(shape).value();
  const uint64_t given = static_cast<uint64_t>(feature.default__size());
  if (given != 1 && given != elements) {
    problems.Add(path + ".default", "has ", given, " values; give one, or ", elements,
                 ", one an element");
  }
}

void CheckTensor(const v1::TensorFeature& tensor, const std::string& path, SpecProblems& problems) {
  if (tensor.shape().empty()) {
    problems.Add(path + ".shape", "is required, such as shape: [-1, 4] with max_count: 64");
  } else if (tensor.allow_missing() && tensor.shape(0) != -1) {
    problems.Add(path + ".allow_missing",
                 "needs a variable first dimension: a missing tensor counts as an empty one");
  }
}

void CheckBytes(const v1::BytesFeature& bytes, const std::string& path, SpecProblems& problems) {
  if (!bytes.length().empty()) CheckName(bytes.length(), path + ".length", problems);
  if (!bytes.has_default_()) return;
  if (!bytes.shape().empty()) {
    problems.Add(path + ".default",
                 "is for a single byte string; a list that may be missing has shape: [-1], and is "
                 "empty then");
  } else if (bytes.max_bytes() != 0 && bytes.default_().size() > bytes.max_bytes()) {
    problems.Add(path + ".default", "is longer than max_bytes");
  }
}

// That the steps of a SequenceExample can be what is declared.
void CheckSequence(const v1::Feature& feature, const std::string& path, SpecProblems& problems) {
  const std::string& axis = feature.sequence();
  if (axis.empty()) return;
  if (!IsFeatureName(axis)) {
    problems.Add(path + ".sequence", "is the name of an axis, such as time: a letter or _ first");
  }
  if (feature.has_tensor() || feature.has_boxes()) {
    problems.Add(path + ".sequence", "goes with bytes, int64 and float: steps are lists of these");
    return;
  }
  const auto& shape = feature.has_bytes()   ? feature.bytes().shape()
                      : feature.has_int64() ? feature.int64().shape()
                                            : feature.float_().shape();
  if (shape.empty() && feature.type_case() != v1::Feature::TYPE_NOT_SET) {
    problems.Add(path + ".sequence",
                 "needs a shape that begins with the number of steps, such as shape: [-1] with "
                 "max_count: 64");
  }
}

void NormalizeFeature(const std::string& name, v1::Feature& feature, SpecProblems& problems) {
  const std::string path = absl::StrCat("features.", name);
  CheckName(name, path, problems);
  if (feature.key().empty()) feature.set_key(feature.has_boxes() ? kBoxesKey : name);
  CheckSequence(feature, path, problems);
  switch (feature.type_case()) {
    case v1::Feature::kBytes:
      CheckBytes(feature.bytes(), path + ".bytes", problems);
      break;
    case v1::Feature::kInt64:
      CheckDefault(feature.int64(), path + ".int64", problems);
      CheckClassNames(feature.int64().classes(), path + ".int64.classes", problems);
      break;
    case v1::Feature::kFloat:
      CheckDefault(feature.float_(), path + ".float", problems);
      break;
    case v1::Feature::kTensor:
      CheckTensor(feature.tensor(), path + ".tensor", problems);
      break;
    case v1::Feature::kBoxes:
    case v1::Feature::TYPE_NOT_SET:
      break;
  }
}

// That a tar can hold the feature.
void CheckTarFeature(const std::string& name, const v1::Feature& feature, SpecProblems& problems) {
  const std::string path = absl::StrCat("features.", name);
  if (feature.has_boxes()) {
    problems.Add(path + ".boxes",
                 "are four lists of a tf.Example; of a tar read them as tensor: {dtype: float32, "
                 "shape: [-1, 4], max_count: 64}, from a .npy member or a JSON array");
    return;
  }
  if (!feature.sequence().empty()) {
    problems.Add(path + ".sequence", "is for TFRecords of tf.train.SequenceExamples; leave it out");
  }
  const auto places = ParseTarKey(feature.key());
  if (!places.ok()) {
    problems.Add(path + ".key", std::string(places.status().message()));
    return;
  }
  if (!feature.bytes().shape().empty() || feature.bytes().max_count() != 0) {
    problems.Add(path + ".bytes.shape",
                 "is for lists of byte strings, and a member of a tar is a single one");
  }
  if (feature.has_bytes()) return;
  for (const TarPlace& place : *places) {
    if (place.ending != kTarSampleKey) continue;
    problems.Add(path + ".key", "`", kTarSampleKey, "` is text: read it as bytes");
  }
}

}  // namespace

void NormalizeSource(v1::Source& source, google::protobuf::Map<std::string, v1::Feature>& features,
                     SpecProblems& problems) {
  const size_t before = problems.all().size();
  switch (source.source_case()) {
    case v1::Source::kTfrecord:
      NormalizeRecordFiles(*source.mutable_tfrecord(), "source.tfrecord", problems);
      break;
    case v1::Source::kTar:
      NormalizeRecordFiles(*source.mutable_tar(), "source.tar", problems);
      if (features.empty()) features = UsualTarFeatures();
      break;
    case v1::Source::kImageList:
      NormalizeList(*source.mutable_image_list(), problems);
      break;
    case v1::Source::kImageFolder:
      NormalizeFolder(*source.mutable_image_folder(), problems);
      break;
    case v1::Source::kRange:
      NormalizeRange(*source.mutable_range(), problems);
      break;
    case v1::Source::kMixture:  // refused by SourceFeatures
    case v1::Source::SOURCE_NOT_SET:
      break;
  }
  std::vector<std::string> names;  // a map's own order differs from run to run
  for (const auto& [name, feature] : features) names.push_back(name);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    NormalizeFeature(name, features[name], problems);
    if (source.has_tar()) CheckTarFeature(name, features[name], problems);
  }
  // The shapes, bounds and types; of a source that names its features, unless they have a problem.
  if (!HasRecordFiles(source) && problems.all().size() != before) return;
  std::set<std::string> wrong;
  SourceFeatures(source, features, "", problems, wrong);
}

}  // namespace bulkhead

#include "server/spec/source_signature.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/base/limits.h"
#include "server/spec/batch_layout.h"
#include "server/spec/checked_math.h"
#include "server/spec/image_lists.h"
#include "server/spec/record_files.h"
#include "server/spec/tar_features.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {
namespace {

using Kind = FeatureSignature::Kind;

FeatureSignature Encoded(absl::string_view name, absl::string_view path, uint64_t max_bytes = 0) {
  return {.name = std::string(name),
          .kind = Kind::kEncoded,
          .dtype = v1::DTYPE_BYTES,
          .max_bytes = max_bytes,
          .path = std::string(path)};
}

FeatureSignature Scalar(absl::string_view name, absl::string_view path, v1::DType dtype) {
  return {.name = std::string(name), .dtype = dtype, .path = std::string(path)};
}

FeatureSignature PathFeature(absl::string_view path, uint64_t max_path_bytes) {
  return Encoded("path", path, max_path_bytes == 0 ? kDefaultMaxPathBytes : max_path_bytes);
}

// A tensor whose first dimension may be -1, which takes its bound from max_count.
absl::StatusOr<FeatureSignature> ShapedFeature(
    absl::string_view name, absl::string_view path, v1::DType dtype,
    const google::protobuf::RepeatedField<int64_t>& shape, uint64_t max_count) {
  FeatureSignature feature = Scalar(name, path, dtype);
  const auto refuse = [&](const char* option, const auto&... message) {
    return SpecError(absl::StrCat(path, ".", option), message...);
  };
  feature.shape.assign(shape.begin(), shape.end());
  for (size_t i = 0; i < feature.shape.size(); ++i) {
    int64_t& extent = feature.shape[i];
    if (i == 0 && extent == -1) {
      if (max_count == 0) {
        return refuse("shape",
                      "a first dimension of -1 needs a bound: add max_count, the most rows that a "
                      "record may have");
      }
      if (max_count > static_cast<uint64_t>(INT64_MAX)) {
        return refuse("max_count", "is too large");
      }
      extent = static_cast<int64_t>(max_count);
      feature.variable = true;
    } else if (extent == -1) {
      return refuse("shape", "dimension ", i, " is -1, but only the first may vary");
    } else if (extent < 1) {
      return refuse("shape", "dimension ", i, " is ", extent, "; each must be at least 1",
                    i == 0 ? ", or -1 for a variable one (with max_count)" : "");
    }
  }
  if (!CheckedCount::Product(feature.shape).FitsIn(static_cast<uint64_t>(INT64_MAX))) {
    return refuse("shape", "has more elements than can be counted");
  }
  if (max_count != 0 && !feature.variable) {
    return refuse("max_count",
                  "bounds a variable first dimension, but the shape has none: write shape: [-1, …] "
                  "or leave max_count out");
  }
  return feature;
}

// Several byte strings, each padded to one width.
absl::StatusOr<FeatureSignature> StringsFeature(absl::string_view name, absl::string_view path,
                                                const v1::BytesFeature& bytes) {
  BULKHEAD_ASSIGN_OR_RETURN(
      FeatureSignature feature,
      ShapedFeature(name, path, v1::DTYPE_UINT8, bytes.shape(), bytes.max_count()));
  if (bytes.max_bytes() == 0) {
    return SpecError(absl::StrCat(path, ".max_bytes"),
                     "is required for a list of byte strings: the most bytes that one may have; a "
                     "list of encoded images has a fixed shape, such as shape: [3]");
  }
  if (!(CheckedCount::Product(feature.shape) * bytes.max_bytes()).FitsIn(kMaxBatchBytes)) {
    return SpecError(absl::StrCat(path, ".max_bytes"), "makes the list larger than the limit of ",
                     kMaxBatchBytes, " bytes; lower it, or the shape");
  }
  feature.shape.push_back(static_cast<int64_t>(bytes.max_bytes()));
  return feature;
}

// A length for each string of `strings`, or for each image of a list.
FeatureSignature LengthsOf(const FeatureSignature& strings, const std::string& path,
                           const v1::BytesFeature& bytes) {
  FeatureSignature lengths = Scalar(bytes.length(), path + ".length", v1::DTYPE_INT64);
  lengths.variable = strings.variable;
  lengths.shape.assign(bytes.shape().begin(), bytes.shape().end());
  if (lengths.variable) lengths.shape[0] = strings.shape[0];  // the bound
  return lengths;
}

// The images of a list, each an encoded one.
void AddImages(const std::string& list, uint64_t images, absl::string_view path,
               std::vector<FeatureSignature>& features) {
  for (uint64_t i = 0; i < images; ++i) features.push_back(Encoded(ImageName(list, i), path));
}

absl::StatusOr<FeatureSignature> BoxesFeature(absl::string_view name, absl::string_view path,
                                              const v1::BoxesFeature& boxes) {
  if (boxes.max_count() == 0) {
    return SpecError(absl::StrCat(path, ".max_count"),
                     "is required: the most boxes that a record may have");
  }
  google::protobuf::RepeatedField<int64_t> shape;
  shape.Add(-1);
  shape.Add(4);
  return ShapedFeature(name, path, v1::DTYPE_FLOAT32, shape, boxes.max_count());
}

absl::StatusOr<FeatureSignature> ExampleFeature(absl::string_view name,
                                                const v1::Feature& feature) {
  const std::string path = absl::StrCat("features.", name);
  switch (feature.type_case()) {
    case v1::Feature::kBytes:
      if (ImagesIn(feature.bytes()) > kMaxFrames) {
        return SpecError(
            absl::StrCat(path, ".bytes.shape"),
            "without max_bytes is a list of encoded images, of which a sample has at most ",
            kMaxFrames, "; give max_bytes for a list of byte strings");
      }
      if (ImagesIn(feature.bytes()) > 0) return Encoded(name, path);
      if (!feature.bytes().shape().empty() || feature.bytes().max_count() != 0) {
        return StringsFeature(name, absl::StrCat(path, ".bytes"), feature.bytes());
      }
      return Encoded(name, path, feature.bytes().max_bytes());
    case v1::Feature::kBoxes:
      return BoxesFeature(name, absl::StrCat(path, ".boxes"), feature.boxes());
    case v1::Feature::kInt64:
      return ShapedFeature(name, absl::StrCat(path, ".int64"), v1::DTYPE_INT64,
                           feature.int64().shape(), feature.int64().max_count());
    case v1::Feature::kFloat:
      return ShapedFeature(name, absl::StrCat(path, ".float"), v1::DTYPE_FLOAT32,
                           feature.float_().shape(), feature.float_().max_count());
    case v1::Feature::kTensor: {
      const v1::DType dtype = feature.tensor().dtype();
      if (ElementBytes(dtype) == 0 || IsForDelivery(dtype)) {
        return SpecError(
            absl::StrCat(path, ".tensor.dtype"),
            IsForDelivery(dtype) ? absl::StrCat("tensors are not read as ", DTypeName(dtype),
                                                ", which stages of yours alone can give")
            : dtype == v1::DTYPE_BYTES
                ? std::string("tensors of strings are not read; name a numeric type or bool")
                : "is required: the element type to deliver, such as dtype: float32");
      }
      return ShapedFeature(name, absl::StrCat(path, ".tensor"), dtype, feature.tensor().shape(),
                           feature.tensor().max_count());
    }
    case v1::Feature::TYPE_NOT_SET:
      break;
  }
  return SpecError(
      path, "has no type: write one of bytes, int64, float, tensor, boxes, such as int64: {}");
}

// The image columns of a list or folder; with `frames` each is a list of images.
std::vector<FeatureSignature> ImageColumns(const v1::Source& source,
                                           std::vector<std::string> columns,
                                           absl::string_view path) {
  const ImageLists lists = ImageListsOf(source, {});
  if (columns.empty()) columns = {"image"};
  std::vector<FeatureSignature> features;
  for (const std::string& name : columns) {
    const auto list = lists.find(name);
    if (list != lists.end()) {
      AddImages(name, list->second, path, features);
    } else {
      features.push_back(Encoded(name, path));
    }
  }
  return features;
}

absl::StatusOr<std::vector<FeatureSignature>> ListFeatures(const v1::Source& source) {
  const v1::ImageListSource& list = source.image_list();
  const absl::string_view path = "source.image_list";
  std::vector<FeatureSignature> features =
      ImageColumns(source, {list.images().begin(), list.images().end()}, path);
  const v1::DType dtype =
      list.label_dtype() == v1::DTYPE_UNSPECIFIED ? v1::DTYPE_INT64 : list.label_dtype();
  if (dtype != v1::DTYPE_INT64 && dtype != v1::DTYPE_FLOAT32) {
    return SpecError("source.image_list.label_dtype", "is ", DTypeName(dtype),
                     ", but labels are read as int64 or float32; a cast stage makes other types");
  }
  if (!list.unlabeled()) {
    for (const std::string& name : list.labels()) features.push_back(Scalar(name, path, dtype));
    if (list.labels().empty()) features.push_back(Scalar("label", path, dtype));
  }
  features.push_back(PathFeature(path, list.max_path_bytes()));
  return features;
}

std::vector<FeatureSignature> FolderFeatures(const v1::Source& source) {
  const v1::ImageFolderSource& folder = source.image_folder();
  const absl::string_view path = "source.image_folder";
  std::vector<FeatureSignature> features = ImageColumns(source, {}, path);
  if (!folder.unlabeled()) features.push_back(Scalar("label", path, v1::DTYPE_INT64));
  features.push_back(PathFeature(path, folder.max_path_bytes()));
  return features;
}

// Of sources that name their features themselves, or of none. Errors: SPEC_INVALID.
absl::StatusOr<std::vector<FeatureSignature>> OwnFeatures(const v1::Source& source) {
  switch (source.source_case()) {
    case v1::Source::kImageList:
      return ListFeatures(source);
    case v1::Source::kImageFolder:
      return FolderFeatures(source);
    case v1::Source::kRange:
      return std::vector<FeatureSignature>{Scalar("index", "source.range", v1::DTYPE_INT64)};
    case v1::Source::kMixture:
      return SpecError("source.mixture",
                       "is not allowed here: a mixture cannot be a source of a mixture; name all "
                       "sources in one list");
    case v1::Source::kTfrecord:
    case v1::Source::kTar:
    case v1::Source::SOURCE_NOT_SET:
      break;
  }
  return SpecError("source",
                   "is required: one of tfrecord, image_list, image_folder, range, mixture, tar");
}

using Declared = google::protobuf::Map<std::string, v1::Feature>;

bool ByName(const FeatureSignature& a, const FeatureSignature& b) { return a.name < b.name; }

// Adds a status of SpecError, whose path is relative to `place`.
void AddAt(absl::string_view place, const absl::Status& status, SpecProblems& problems) {
  SpecProblems one;
  one.Add(status);
  problems.AddBelow(place, one);
}

// What is declared of records. `wrong`: as of SourceFeatures.
std::vector<FeatureSignature> DeclaredFeatures(const Declared& features, absl::string_view place,
                                               SpecProblems& problems,
                                               std::set<std::string>& wrong) {
  std::vector<std::string> names;  // a map's own order differs from run to run
  for (const auto& [name, feature] : features) names.push_back(name);
  std::sort(names.begin(), names.end());
  std::vector<FeatureSignature> result;
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(place, place.empty() ? "" : ".", "features.", name);
    const v1::BytesFeature& bytes = features.at(name).bytes();
    const bool known_problem = problems.AnyAtOrBelow(path);
    absl::StatusOr<FeatureSignature> signature = ExampleFeature(name, features.at(name));
    if (known_problem || !signature.ok()) {
      wrong.insert(name);
      if (!bytes.length().empty()) wrong.insert(bytes.length());
      if (!known_problem) AddAt(place, signature.status(), problems);
      continue;
    }
    if (!bytes.length().empty()) {
      result.push_back(LengthsOf(*signature, absl::StrCat("features.", name, ".bytes"), bytes));
    }
    if (const uint64_t images = ImagesIn(bytes); images > 0) {
      AddImages(name, images, signature->path, result);
    } else {
      result.push_back(*std::move(signature));
    }
  }
  std::sort(result.begin(), result.end(), ByName);
  for (size_t i = 1; i < result.size(); ++i) {
    if (result[i].name != result[i - 1].name) continue;
    const bool first_is_length = absl::EndsWith(result[i - 1].path, ".bytes.length");
    AddAt(place,
          SpecError(result[first_is_length ? i - 1 : i].path, "`", result[i].name,
                    "` is the name of another feature"),
          problems);
    wrong.insert(result[i].name);
  }
  return result;
}

}  // namespace

std::string DeclarationOf(const google::protobuf::Map<std::string, v1::Feature>& features,
                          const std::string& name) {
  if (features.contains(name)) return name;
  for (const auto& [declared, feature] : features) {
    if (feature.bytes().length() == name) return declared;
    if (ImagesIn(feature.bytes()) > 0 && ImageNumber(declared, name).has_value()) return declared;
  }
  return "";
}

absl::StatusOr<std::vector<FeatureSignature>> SourceFeatures(
    const v1::Source& source, const google::protobuf::Map<std::string, v1::Feature>& features) {
  SpecProblems problems;
  std::set<std::string> wrong;
  auto result = SourceFeatures(source, features, "", problems, wrong);
  BULKHEAD_RETURN_IF_ERROR(problems.ToStatus());
  return *std::move(result);
}

std::optional<std::vector<FeatureSignature>> SourceFeatures(
    const v1::Source& source, const google::protobuf::Map<std::string, v1::Feature>& features,
    absl::string_view place, SpecProblems& problems, std::set<std::string>& wrong) {
  const auto refuse = [&](const absl::Status& status) {
    AddAt(place, status, problems);
    return std::nullopt;
  };
  const bool names_its_own = !HasRecordFiles(source) &&
                             source.source_case() != v1::Source::kMixture &&
                             source.source_case() != v1::Source::SOURCE_NOT_SET;
  if (names_its_own && !features.empty()) {
    return refuse(SpecError("features",
                            "describes the records of tfrecord and tar files; this source names "
                            "its features itself: leave `features` out"));
  }
  if (source.has_tfrecord() && features.empty()) {
    return refuse(
        SpecError("features",
                  "is required for tfrecord: name what the records hold, such as features: {image: "
                  "{bytes: {}}, label: {int64: {}}}; `bulkhead inspect FILES` shows them"));
  }
  if (source.has_tar() && features.empty()) {
    return DeclaredFeatures(UsualTarFeatures(), place, problems, wrong);
  }
  if (HasRecordFiles(source)) return DeclaredFeatures(features, place, problems, wrong);
  absl::StatusOr<std::vector<FeatureSignature>> result = OwnFeatures(source);
  if (!result.ok()) return refuse(result.status());
  std::sort(result->begin(), result->end(), ByName);
  for (size_t i = 1; i < result->size(); ++i) {
    if ((*result)[i].name != (*result)[i - 1].name) continue;
    return refuse(SpecError((*result)[i].path, "two features are called `", (*result)[i].name,
                            "`; `path` is always given, and every name must differ"));
  }
  return *std::move(result);
}

}  // namespace bulkhead

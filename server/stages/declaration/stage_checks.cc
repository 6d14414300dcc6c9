#include "server/stages/declaration/stage_checks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/base/element_type.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

using Kind = FeatureSignature::Kind;

// "resize" of "stages[2].resize".
std::string LastPart(absl::string_view path) {
  const std::vector<std::string> parts = absl::StrSplit(path, '.');
  return parts.back();
}

}  // namespace

bool IsFeatureName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         (absl::ascii_isalpha(name[0]) || name[0] == '_') &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '/' || c == '.';
         });
}

const FeatureSignature* FindFeature(const std::vector<FeatureSignature>& features,
                                    absl::string_view name) {
  const auto found = std::find_if(features.begin(), features.end(),
                                  [&](const auto& feature) { return feature.name == name; });
  return found == features.end() ? nullptr : &*found;
}

FeatureSignature& FeatureNamed(std::vector<FeatureSignature>& features, const std::string& name) {
  return features[FindFeature(features, name) - features.data()];
}

absl::Status InsertFeature(FeatureSignature feature, absl::string_view path,
                           std::vector<FeatureSignature>& features) {
  const auto place = std::lower_bound(
      features.begin(), features.end(), feature.name,
      [](const FeatureSignature& other, const std::string& name) { return other.name < name; });
  if (place != features.end() && place->name == feature.name) {
    return SpecError(path, "`", feature.name, "` is a feature already; choose another name");
  }
  features.insert(place, std::move(feature));
  return absl::OkStatus();
}

std::string DescribeFeature(const FeatureSignature& feature) {
  if (feature.kind == Kind::kEncoded) return "encoded bytes";
  const bool image = feature.kind == Kind::kImage;
  return absl::StrCat(DTypeName(feature.dtype), image ? " image" : " tensor", " [",
                      absl::StrJoin(feature.shape, ","), "]",
                      image && feature.channels_first ? " (NCHW)" : "");
}

absl::Status WrongInput(absl::string_view path, const FeatureSignature& input,
                        absl::string_view wanted, absl::string_view advice) {
  return SpecError(absl::StrCat(path, ".input"), "takes ", wanted, ", but `", input.name, "` is ",
                   DescribeFeature(input), " here (from ", input.path, "); ", advice);
}

absl::Status CheckPixels(absl::string_view path, const FeatureSignature& input) {
  const absl::string_view wanted = "a uint8 image, channels last";
  if (input.kind == Kind::kEncoded) {
    return WrongInput(path, input, wanted, "put decode_image before it");
  }
  if (input.is_stack) {
    return WrongInput(path, input, wanted,
                      absl::StrCat("put ", LastPart(path), " before five_crop"));
  }
  if (input.kind != Kind::kImage) {
    return WrongInput(path, input, wanted, "name an image with `input:`");
  }
  if (input.dtype != v1::DTYPE_UINT8 || input.channels_first) {
    return WrongInput(path, input, wanted,
                      absl::StrCat("put ", LastPart(path), " before ",
                                   input.channels_first && input.dtype == v1::DTYPE_UINT8 ? "layout"
                                   : input.channels_first ? "normalize, cast and layout"
                                                          : "normalize and cast"));
  }
  return absl::OkStatus();
}

absl::Status CheckRgb(absl::string_view path, const FeatureSignature& input) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, input));
  if (input.shape.back() == 3) return absl::OkStatus();
  return WrongInput(path, input, "an image with three channels",
                    "decode it with color: rgb, or leave this stage out");
}

absl::Status CheckNumeric(absl::string_view path, const FeatureSignature& input) {
  const absl::string_view wanted = "numbers";
  if (input.kind == Kind::kEncoded) {
    return WrongInput(path, input, wanted, "put decode_image before it, or name another `input:`");
  }
  if (IsForDelivery(input.dtype)) {
    return WrongInput(path, input, wanted,
                      absl::StrCat("no stage but yours computes with ", DTypeName(input.dtype),
                                   ": let your function give another type"));
  }
  if (input.dtype == v1::DTYPE_BOOL) {
    return WrongInput(path, input, wanted, "cast it first, such as cast: {dtype: uint8}");
  }
  return absl::OkStatus();
}

absl::Status CheckFill(const Extents& fill, const FeatureSignature& input, absl::string_view path) {
  if (fill.size() <= 1 || fill.size() == input.shape.back()) return absl::OkStatus();
  return SpecError(absl::StrCat(path, ".fill"), "has ", fill.size(), " numbers, but `", input.name,
                   "` is ", DescribeFeature(input), " here: give one number, or ",
                   input.shape.back(), " (one per channel)");
}

FeatureSignature WithSize(const Extents& size, FeatureSignature input) {
  input.shape[0] = size[0];
  input.shape[1] = size[size.size() - 1];
  return input;
}

absl::StatusOr<FeatureSignature> InferSame(const google::protobuf::Message&,
                                           const FeatureSignature& input, absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, input));
  return input;
}

absl::StatusOr<FeatureSignature> InferSameRgb(const google::protobuf::Message&,
                                              const FeatureSignature& input,
                                              absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckRgb(path, input));
  return input;
}

}  // namespace bulkhead

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/base/error.h"
#include "server/stages/declaration/feature_signature.h"
#include "server/stages/declaration/spec_error.h"

// Checks that several kinds of stages share.
namespace bulkhead {

using Extents = google::protobuf::RepeatedField<uint32_t>;
using Doubles = google::protobuf::RepeatedField<double>;

// `name`, or `otherwise` if the spec gives none.
inline std::string NameOr(const std::string& name, absl::string_view otherwise) {
  return name.empty() ? std::string(otherwise) : name;
}

// Whether this can be the name of a feature: such names become output names, keys of NumPy
// structures and places in messages. A letter or _ first, then letters, digits and _ - / .
inline constexpr size_t kMaxNameBytes = 128;
bool IsFeatureName(absl::string_view name);

// The feature `name`; null: it is not in `features`.
const FeatureSignature* FindFeature(const std::vector<FeatureSignature>& features,
                                    absl::string_view name);
// The feature `name`, which must be in `features`.
FeatureSignature& FeatureNamed(std::vector<FeatureSignature>& features, const std::string& name);

// Inserts a new feature into `features`, sorted by name; an error at `path` if its name is taken.
absl::Status InsertFeature(FeatureSignature feature, absl::string_view path,
                           std::vector<FeatureSignature>& features);

// "a float32 image [3,224,224] (NCHW)": what a feature is, for messages.
std::string DescribeFeature(const FeatureSignature& feature);

// "takes WANTED, but `image` is … here (from …); ADVICE".
absl::Status WrongInput(absl::string_view path, const FeatureSignature& input,
                        absl::string_view wanted, absl::string_view advice);

// Checks that `input` is a decoded image: uint8, channels last.
absl::Status CheckPixels(absl::string_view path, const FeatureSignature& input);

// Checks that `input` is such an image with three channels.
absl::Status CheckRgb(absl::string_view path, const FeatureSignature& input);

// Checks that `input` has numbers.
absl::Status CheckNumeric(absl::string_view path, const FeatureSignature& input);

// Checks that `fill`, if it has several values, has one for each of `input`'s channels.
absl::Status CheckFill(const Extents& fill, const FeatureSignature& input, absl::string_view path);

// `input` with another height and width, given as one or two extents.
FeatureSignature WithSize(const Extents& size, FeatureSignature input);

// Infer functions of stages that keep an image's shape: with any number of channels, or three.
absl::StatusOr<FeatureSignature> InferSame(const google::protobuf::Message& stage,
                                           const FeatureSignature& input, absl::string_view path);
absl::StatusOr<FeatureSignature> InferSameRgb(const google::protobuf::Message& stage,
                                              const FeatureSignature& input,
                                              absl::string_view path);

// The same, with `fill`.
template <typename Message>
absl::StatusOr<FeatureSignature> InferFilled(const Message& stage, const FeatureSignature& input,
                                             absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, input));
  BULKHEAD_RETURN_IF_ERROR(CheckFill(stage.fill(), input, path));
  return input;
}

}  // namespace bulkhead

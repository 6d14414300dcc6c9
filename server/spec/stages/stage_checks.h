#ifndef BULKHEAD_SERVER_SPEC_STAGES_STAGE_CHECKS_H_
#define BULKHEAD_SERVER_SPEC_STAGES_STAGE_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"
#include "server/spec/spec_error.h"

// What the kinds of stages check alike.
namespace bulkhead {

// The largest extent that any image format here can hold.
inline constexpr uint32_t kMaxExtent = 65'535;

using Extents = google::protobuf::RepeatedField<uint32_t>;
using Numbers = google::protobuf::RepeatedField<double>;

// `name`, or `otherwise` where the spec gives none.
inline std::string NameOr(const std::string& name, absl::string_view otherwise) {
  return name.empty() ? std::string(otherwise) : name;
}

// The one of `features` that is called `name`, which must be there.
FeatureSignature& FeatureNamed(std::vector<FeatureSignature>& features, const std::string& name);

// Puts a new feature among `features`, sorted by name; an error at `path` when its name is taken.
absl::Status InsertFeature(FeatureSignature feature, absl::string_view path,
                           std::vector<FeatureSignature>& features);

// "a float32 image [3,224,224] (NCHW)": what a feature is, for messages.
std::string DescribeFeature(const FeatureSignature& feature);

// "takes WANTED, but `image` is … here (from …); ADVICE".
absl::Status WrongInput(absl::string_view path, const FeatureSignature& input,
                        absl::string_view wanted, absl::string_view advice);

// That `input` is a decoded image: uint8, channels last.
absl::Status CheckPixels(absl::string_view path, const FeatureSignature& input);

// That `input` is such an image with three channels.
absl::Status CheckRgb(absl::string_view path, const FeatureSignature& input);

// That `input` has numbers.
absl::Status CheckNumeric(absl::string_view path, const FeatureSignature& input);

// `size`: one or two extents, made two.
void NormalizeSize(Extents& size, const std::string& path, SpecProblems& problems);

// Interpolation: linear, or what `otherwise` says, where the spec is silent.
template <typename Resizing>
void NormalizeInterpolation(Resizing& stage, const std::string& path, SpecProblems& problems,
                            v1::Interpolation otherwise = v1::INTERPOLATION_LINEAR) {
  if (stage.interpolation() == v1::INTERPOLATION_UNSPECIFIED) stage.set_interpolation(otherwise);
  if (!v1::Interpolation_IsValid(stage.interpolation())) {
    problems.Add(path + ".interpolation",
                 "has the unknown value " + std::to_string(stage.interpolation()));
  }
}

// `probability`: between 0 and 1, `otherwise` where the spec is silent.
template <typename Chancy>
void NormalizeProbability(Chancy& stage, double otherwise, const std::string& path,
                          SpecProblems& problems) {
  if (!stage.has_probability()) stage.set_probability(otherwise);
  if (!(stage.probability() >= 0 && stage.probability() <= 1)) {
    problems.Add(path + ".probability", "must lie between 0 and 1");
  }
}

// A pair [low, high] with 0 < low <= high <= `limit`; [low, high] where the spec is silent.
void NormalizeBounds(Numbers& bounds, double low, double high, double limit,
                     const std::string& path, SpecProblems& problems);

// `fill`: one value of a pixel, or one a channel; `otherwise` where the spec is silent. How many
// channels there are is CheckFill's business.
void NormalizeFill(Extents& fill, uint32_t otherwise, const std::string& path,
                   SpecProblems& problems);
absl::Status CheckFill(const Extents& fill, const FeatureSignature& input, absl::string_view path);

// `input` with another height and width: `size` as NormalizeSize left it.
absl::StatusOr<FeatureSignature> WithSize(const Extents& size, const FeatureSignature& input,
                                          absl::string_view path);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_STAGES_STAGE_CHECKS_H_

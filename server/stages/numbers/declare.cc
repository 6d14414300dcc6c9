#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/base/element_type.h"
#include "server/stages/declaration/families.h"
#include "server/stages/declaration/feature_kind.h"
#include "server/stages/declaration/stage_checks.h"

namespace bulkhead {
namespace {

using Kind = FeatureSignature::Kind;
using Signature = absl::StatusOr<FeatureSignature>;

constexpr uint32_t kMaxClasses = 1u << 30;

void CheckNumbers(const google::protobuf::RepeatedField<float>& numbers, bool divides,
                  const std::string& path, SpecProblems& problems) {
  for (const float number : numbers) {
    if (!std::isfinite(number)) {
      problems.Add(path, "must hold finite float32 numbers only");
      return;
    }
    if (divides && number == 0) {
      problems.Add(path, "divides, so it cannot be 0");
      return;
    }
  }
}

void NormalizeNormalize(v1::Normalize& stage, const std::string& path, SpecProblems& problems) {
  const bool standard = stage.mean_size() + stage.std_size() > 0;
  const bool scaled = stage.divide_size() + stage.subtract_size() > 0;
  if (standard && scaled) {
    problems.Add(path,
                 "mixes mean/std, (x - mean) / std, with divide/subtract, x / divide - subtract; "
                 "use one of the two forms");
    return;
  }
  if (!standard && !scaled) {
    problems.Add(path, "needs mean and std, or divide and subtract");
    return;
  }
  if (standard) {
    if (stage.mean().empty()) stage.add_mean(0);
    if (stage.std().empty()) stage.add_std(1);
  } else {
    if (stage.divide().empty()) stage.add_divide(1);
    if (stage.subtract().empty()) stage.add_subtract(0);
  }
  CheckNumbers(stage.mean(), false, path + ".mean", problems);
  CheckNumbers(stage.std(), true, path + ".std", problems);
  CheckNumbers(stage.divide(), true, path + ".divide", problems);
  CheckNumbers(stage.subtract(), false, path + ".subtract", problems);
}

bool IsCastTarget(v1::DType dtype) {
  return (IsInteger(dtype) || IsFloat(dtype)) && !IsForDelivery(dtype);
}

// A DTYPE as an option's value; unknown ones are refused elsewhere.
bool MayBeCastTarget(double number) {
  const int dtype = static_cast<int>(number);
  return !v1::DType_IsValid(dtype) || IsCastTarget(static_cast<v1::DType>(dtype));
}

// `at: trainer`: the feature stays as it is, and the client gets the constants.
Signature NormalizedByTrainer(const v1::Normalize& stage, FeatureSignature& feature,
                              absl::string_view path) {
  if (feature.dtype != v1::DTYPE_UINT8 || feature.shape.empty() || feature.variable ||
      feature.channels_first) {
    return WrongInput(path, feature, "uint8 of one shape, channels last, with at: trainer",
                      "put layout and cast behind it, or write at: worker");
  }
  v1::Normalization& rest = feature.normalization.emplace();
  *rest.mutable_mean() = stage.mean();
  *rest.mutable_std() = stage.std();
  *rest.mutable_divide() = stage.divide();
  *rest.mutable_subtract() = stage.subtract();
  rest.set_dtype(v1::DTYPE_FLOAT32);
  feature.normalized_at = std::string(path);
  return feature;
}

Signature InferNormalize(const v1::Normalize& stage, const FeatureSignature& input,
                         absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckNumeric(path, input));
  const bool image = input.kind == Kind::kImage;
  // Images: one number per channel. Other tensors: one number per element of the last dimension.
  const int64_t channels = input.shape.empty()                         ? 1
                           : image && input.channels_first             ? input.shape.front()
                           : input.is_stack && input.channels_first    ? input.shape[1]
                           : input.variable && input.shape.size() == 1 ? 1
                                                                       : input.shape.back();
  const std::pair<absl::string_view, int> lists[] = {{"mean", stage.mean_size()},
                                                     {"std", stage.std_size()},
                                                     {"divide", stage.divide_size()},
                                                     {"subtract", stage.subtract_size()}};
  for (const auto& [name, count] : lists) {
    if (count > 1 && count != channels) {
      return SpecError(
          absl::StrCat(path, ".", name), "has ", count, " numbers, but `", input.name, "` is ",
          DescribeFeature(input), " here: give one number, or ", channels,
          image || input.is_stack ? " (one per channel)" : " (one for each of the last dimension)");
    }
  }
  FeatureSignature output = input;
  if (stage.at() == v1::NORMALIZE_AT_TRAINER) return NormalizedByTrainer(stage, output, path);
  output.dtype = v1::DTYPE_FLOAT32;
  return output;
}

Signature InferCast(const v1::Cast& stage, const FeatureSignature& input, absl::string_view path) {
  if (input.kind == Kind::kEncoded) {
    return WrongInput(path, input, "numbers",
                      "put decode_image before it, or name another `input:`");
  }
  // Booleans may be cast; types that are only passed through may not.
  if (input.dtype != v1::DTYPE_BOOL) BULKHEAD_RETURN_IF_ERROR(CheckNumeric(path, input));
  FeatureSignature output = input;
  if (output.normalization.has_value()) {
    const v1::DType before = output.normalization->dtype();
    const bool narrows = stage.dtype() == v1::DTYPE_FLOAT16 || stage.dtype() == v1::DTYPE_BFLOAT16;
    if (stage.dtype() != before && (before != v1::DTYPE_FLOAT32 || !narrows)) {
      return SpecError(absl::StrCat(path, ".dtype"), "is ", DTypeName(stage.dtype()),
                       ", but the trainer (at: trainer, ", input.normalized_at,
                       ") only makes float32, float16 or bfloat16, once; write at: worker");
    }
    output.normalization->set_dtype(stage.dtype());
    return output;
  }
  output.dtype = stage.dtype();
  return output;
}

Signature InferLayout(const v1::Layout& stage, const FeatureSignature& input,
                      absl::string_view path) {
  if (input.kind != Kind::kImage && !input.is_stack) {
    return WrongInput(path, input, "an image",
                      input.kind == Kind::kEncoded ? "put decode_image before it"
                                                   : "name an image with `input:`");
  }
  FeatureSignature output = input;
  if (output.normalization.has_value()) {
    output.normalization->set_channels_first(stage.to() == v1::IMAGE_LAYOUT_NCHW);
    return output;
  }
  output.channels_first = stage.to() == v1::IMAGE_LAYOUT_NCHW;
  // The last three extents, after the number of images of a stack.
  const auto image = output.shape.end() - 3;
  if (output.channels_first && !input.channels_first) {
    std::rotate(image, image + 2, output.shape.end());
  } else if (!output.channels_first && input.channels_first) {
    std::rotate(image, image + 1, output.shape.end());
  }
  return output;
}

Signature InferOneHot(const v1::OneHot& stage, const FeatureSignature& input,
                      absl::string_view path) {
  const absl::string_view wanted = "one integer label a sample";
  if (input.kind != Kind::kTensor || !input.shape.empty()) {
    return WrongInput(path, input, wanted, "name the label with `input:`");
  }
  if (!IsInteger(input.dtype) || IsForDelivery(input.dtype)) {
    return WrongInput(path, input, wanted, "cast it first, such as cast: {dtype: int64}");
  }
  FeatureSignature output = input;
  output.dtype = v1::DTYPE_FLOAT32;
  output.shape = {static_cast<int64_t>(stage.classes())};
  return output;
}

}  // namespace

StageKinds NumberKinds() {
  return Family(
      Declare<v1::Normalize>({.options = {Option("mean").Otherwise("0 with `std`"),
                                          Option("std").Otherwise("1 with `mean`"),
                                          Option("divide").Otherwise("1 with `subtract`"),
                                          Option("subtract").Otherwise("0 with `divide`"),
                                          Option("at").ImpliedDefault(v1::NORMALIZE_AT_WORKER)},
                              .rules = NormalizeNormalize,
                              .infer = InferNormalize}),
      Declare<v1::Cast>({.options = {Option("dtype")
                                         .Required("the element type to convert to", "float32")
                                         .Only(MayBeCastTarget,
                                               "must be a numeric type that stages compute with")},
                         .infer = InferCast,
                         .traits = {.keeps_numbers = true}}),
      Declare<v1::Layout>({.options = {Option("to")
                                           .Required("NHWC or NCHW", "NCHW")
                                           .OneOf({v1::IMAGE_LAYOUT_NHWC, v1::IMAGE_LAYOUT_NCHW},
                                                  "is required: NHWC or NCHW")},
                           .infer = InferLayout,
                           .traits = {.keeps_numbers = true}}),
      Declare<v1::OneHot>({.input = "label",
                           .options = {Option("classes")
                                           .Required("how many classes there are, at least 1", "10")
                                           .Between(1, kMaxClasses, "is $0, over the limit of $2")},
                           .infer = InferOneHot}));
}

}  // namespace bulkhead

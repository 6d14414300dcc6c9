#include "server/spec/stage_signature.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/spec/spec_error.h"

namespace bulkhead {
namespace {

using Kind = FeatureSignature::Kind;
using Signature = absl::StatusOr<FeatureSignature>;

// "a float32 image [3,224,224] (NCHW)": what a feature is, for messages.
std::string Describe(const FeatureSignature& feature) {
  if (feature.kind == Kind::kEncoded) return "encoded bytes";
  const bool image = feature.kind == Kind::kImage;
  return absl::StrCat(DTypeName(feature.dtype), image ? " image" : " tensor", " [",
                      absl::StrJoin(feature.shape, ","), "]",
                      image && feature.channels_first ? " (NCHW)" : "");
}

absl::Status WrongInput(absl::string_view path, const FeatureSignature& input,
                        absl::string_view wanted, absl::string_view advice) {
  return SpecError(absl::StrCat(path, ".input"),
                   absl::StrCat("takes ", wanted, ", but `", input.name, "` is ", Describe(input),
                                " here (from ", input.path, "); ", advice));
}

// Geometry works on decoded bytes: uint8, channels last.
absl::Status CheckPixels(absl::string_view path, absl::string_view stage,
                         const FeatureSignature& input) {
  const absl::string_view wanted = "a uint8 image, channels last";
  if (input.kind == Kind::kEncoded) {
    return WrongInput(path, input, wanted, "put decode_image before it");
  }
  if (input.kind != Kind::kImage) {
    return WrongInput(path, input, wanted, "name an image with `input:`");
  }
  if (input.dtype != v1::DTYPE_UINT8 || input.channels_first) {
    return WrongInput(path, input, wanted,
                      absl::StrCat("put ", stage, " before ",
                                   input.channels_first && input.dtype == v1::DTYPE_UINT8 ? "layout"
                                   : input.channels_first ? "normalize, cast and layout"
                                                          : "normalize and cast"));
  }
  return absl::OkStatus();
}

absl::Status CheckNumeric(absl::string_view path, const FeatureSignature& input) {
  const absl::string_view wanted = "numbers";
  if (input.kind == Kind::kEncoded) {
    return WrongInput(path, input, wanted, "put decode_image before it, or name another `input:`");
  }
  if (input.dtype == v1::DTYPE_BOOL) {
    return WrongInput(path, input, wanted, "cast it first, such as cast: {dtype: uint8}");
  }
  return absl::OkStatus();
}

// One extent of a two-number size; one number stands for a square.
template <typename Sized>
std::vector<int64_t> SizeOf(const Sized& stage) {
  if (stage.size().empty()) return {0, 0};
  return {static_cast<int64_t>(stage.size(0)),
          static_cast<int64_t>(stage.size(stage.size_size() > 1 ? 1 : 0))};
}

template <typename Sized>
Signature WithSize(const Sized& stage, const FeatureSignature& input, absl::string_view path) {
  const std::vector<int64_t> size = SizeOf(stage);
  if (size[0] < 1 || size[1] < 1) {
    return SpecError(absl::StrCat(path, ".size"),
                     "is required: [height, width], or one number for a square");
  }
  FeatureSignature output = input;
  output.shape[0] = size[0];
  output.shape[1] = size[1];
  return output;
}

Signature Infer(const v1::DecodeImage& stage, const FeatureSignature& input,
                absl::string_view path) {
  if (input.kind != Kind::kEncoded) {
    return WrongInput(path, input, "encoded bytes",
                      input.kind == Kind::kImage ? "it is decoded already: leave this stage out"
                                                 : "name an encoded image with `input:`");
  }
  FeatureSignature output = input;
  output.kind = Kind::kImage;
  output.dtype = v1::DTYPE_UINT8;
  output.shape = {-1, -1, DecodedChannels(stage)};
  output.max_bytes = 0;
  return output;
}

Signature Infer(const v1::Resize& stage, const FeatureSignature& input, absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, "resize", input));
  return WithSize(stage, input, path);
}

Signature Infer(const v1::CenterCrop& stage, const FeatureSignature& input,
                absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, "center_crop", input));
  BULKHEAD_ASSIGN_OR_RETURN(FeatureSignature output, WithSize(stage, input, path));
  for (int i = 0; i < 2; ++i) {
    if (input.shape[i] != -1 && output.shape[i] > input.shape[i]) {
      return SpecError(absl::StrCat(path, ".size"),
                       absl::StrCat("cuts ", output.shape[0], "x", output.shape[1],
                                    " out of an image that is ", input.shape[0], "x",
                                    input.shape[1], " here; crop less, or resize to more first"));
    }
  }
  return output;
}

Signature Infer(const v1::RandomResizedCrop& stage, const FeatureSignature& input,
                absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, "random_resized_crop", input));
  return WithSize(stage, input, path);
}

Signature Infer(const v1::RandomHorizontalFlip& stage, const FeatureSignature& input,
                absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, "random_horizontal_flip", input));
  return input;
}

Signature Infer(const v1::Normalize& stage, const FeatureSignature& input, absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckNumeric(path, input));
  const bool image = input.kind == Kind::kImage;
  // Images: one number a channel. Other tensors: one number for each element of the last dimension.
  const int64_t channels = input.shape.empty()                         ? 1
                           : image && input.channels_first             ? input.shape.front()
                           : input.variable && input.shape.size() == 1 ? 1
                                                                       : input.shape.back();
  const std::pair<absl::string_view, int> lists[] = {{"mean", stage.mean_size()},
                                                     {"std", stage.std_size()},
                                                     {"divide", stage.divide_size()},
                                                     {"subtract", stage.subtract_size()}};
  for (const auto& [name, count] : lists) {
    if (count > 1 && count != channels) {
      return SpecError(
          absl::StrCat(path, ".", name),
          absl::StrCat("has ", count, " numbers, but `", input.name, "` is ", Describe(input),
                       " here: give one number, or ", channels,
                       image ? " (one a channel)" : " (one for each of the last dimension)"));
    }
  }
  FeatureSignature output = input;
  output.dtype = v1::DTYPE_FLOAT32;
  return output;
}

Signature Infer(const v1::Cast& stage, const FeatureSignature& input, absl::string_view path) {
  if (input.kind == Kind::kEncoded) {
    return WrongInput(path, input, "numbers",
                      "put decode_image before it, or name another `input:`");
  }
  if (ElementBytes(stage.dtype()) == 0 || stage.dtype() == v1::DTYPE_BOOL) {
    return SpecError(absl::StrCat(path, ".dtype"),
                     stage.dtype() == v1::DTYPE_UNSPECIFIED
                         ? std::string("is required: the element type to convert to")
                         : absl::StrCat("is ", DTypeName(stage.dtype()),
                                        ", but numbers are converted to numeric types only"));
  }
  FeatureSignature output = input;
  output.dtype = stage.dtype();
  return output;
}

Signature Infer(const v1::Layout& stage, const FeatureSignature& input, absl::string_view path) {
  if (input.kind != Kind::kImage) {
    return WrongInput(path, input, "an image",
                      input.kind == Kind::kEncoded ? "put decode_image before it"
                                                   : "name an image with `input:`");
  }
  if (stage.to() == v1::IMAGE_LAYOUT_UNSPECIFIED) {
    return SpecError(absl::StrCat(path, ".to"), "is required: NHWC or NCHW");
  }
  FeatureSignature output = input;
  output.channels_first = stage.to() == v1::IMAGE_LAYOUT_NCHW;
  if (output.channels_first && !input.channels_first) {
    output.shape = {input.shape[2], input.shape[0], input.shape[1]};
  } else if (!output.channels_first && input.channels_first) {
    output.shape = {input.shape[1], input.shape[2], input.shape[0]};
  }
  return output;
}

bool IsInteger(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_UINT8:
    case v1::DTYPE_INT8:
    case v1::DTYPE_UINT16:
    case v1::DTYPE_INT16:
    case v1::DTYPE_INT32:
    case v1::DTYPE_INT64:
      return true;
    default:
      return false;
  }
}

Signature Infer(const v1::OneHot& stage, const FeatureSignature& input, absl::string_view path) {
  const absl::string_view wanted = "one integer label a sample";
  if (input.kind != Kind::kTensor || !input.shape.empty()) {
    return WrongInput(path, input, wanted, "name the label with `input:`");
  }
  if (!IsInteger(input.dtype)) {
    return WrongInput(path, input, wanted, "cast it first, such as cast: {dtype: int64}");
  }
  if (stage.classes() == 0) {
    return SpecError(absl::StrCat(path, ".classes"), "is required: how many classes there are");
  }
  FeatureSignature output = input;
  output.dtype = v1::DTYPE_FLOAT32;
  output.shape = {static_cast<int64_t>(stage.classes())};
  return output;
}

std::string Or(const std::string& text, absl::string_view otherwise) {
  return text.empty() ? std::string(otherwise) : text;
}

}  // namespace

std::string StageName(const v1::Stage& stage) {
  if (stage.stage_case() == v1::Stage::STAGE_NOT_SET) return "";
  return v1::Stage::descriptor()->FindFieldByNumber(stage.stage_case())->name();
}

std::string StageInput(const v1::Stage& stage) {
  switch (stage.stage_case()) {
    case v1::Stage::kDecodeImage:
      return Or(stage.decode_image().input(), "image");
    case v1::Stage::kResize:
      return Or(stage.resize().input(), "image");
    case v1::Stage::kCenterCrop:
      return Or(stage.center_crop().input(), "image");
    case v1::Stage::kRandomResizedCrop:
      return Or(stage.random_resized_crop().input(), "image");
    case v1::Stage::kRandomHorizontalFlip:
      return Or(stage.random_horizontal_flip().input(), "image");
    case v1::Stage::kNormalize:
      return Or(stage.normalize().input(), "image");
    case v1::Stage::kCast:
      return Or(stage.cast().input(), "image");
    case v1::Stage::kLayout:
      return Or(stage.layout().input(), "image");
    case v1::Stage::kOneHot:
      return Or(stage.one_hot().input(), "label");
    case v1::Stage::kFault:
    case v1::Stage::STAGE_NOT_SET:
      break;
  }
  return "";
}

bool IsRandomStage(const v1::Stage& stage) {
  return stage.has_random_resized_crop() || stage.has_random_horizontal_flip();
}

int64_t DecodedChannels(const v1::DecodeImage& decode) {
  switch (decode.color()) {
    case v1::COLOR_GRAY:
      return 1;
    case v1::COLOR_RGBA:
      return 4;
    case v1::COLOR_RGB:
    case v1::COLOR_BGR:
      return 3;
    default:
      return decode.channels() == 0 ? 3 : static_cast<int64_t>(decode.channels());
  }
}

absl::StatusOr<FeatureSignature> StageOutput(const v1::Stage& stage, const FeatureSignature& input,
                                             absl::string_view path) {
  Signature output = absl::InternalError("unreachable");
  switch (stage.stage_case()) {
    case v1::Stage::kDecodeImage:
      output = Infer(stage.decode_image(), input, path);
      break;
    case v1::Stage::kResize:
      output = Infer(stage.resize(), input, path);
      break;
    case v1::Stage::kCenterCrop:
      output = Infer(stage.center_crop(), input, path);
      break;
    case v1::Stage::kRandomResizedCrop:
      output = Infer(stage.random_resized_crop(), input, path);
      break;
    case v1::Stage::kRandomHorizontalFlip:
      output = Infer(stage.random_horizontal_flip(), input, path);
      break;
    case v1::Stage::kNormalize:
      output = Infer(stage.normalize(), input, path);
      break;
    case v1::Stage::kCast:
      output = Infer(stage.cast(), input, path);
      break;
    case v1::Stage::kLayout:
      output = Infer(stage.layout(), input, path);
      break;
    case v1::Stage::kOneHot:
      output = Infer(stage.one_hot(), input, path);
      break;
    case v1::Stage::kFault:
      return input;
    case v1::Stage::STAGE_NOT_SET:
      output = SpecError(path, "is empty: name a stage, such as decode_image: {}");
      break;
  }
  if (output.ok()) output->path = std::string(path);
  return output;
}

}  // namespace bulkhead

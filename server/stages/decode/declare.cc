#include "server/stages/decode/declare.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/stages/declaration/families.h"
#include "server/stages/declaration/feature_kind.h"
#include "server/stages/declaration/stage_checks.h"

namespace bulkhead {
namespace {

using Kind = FeatureSignature::Kind;

bool IsChannels(double count) { return count == 1 || count == 3 || count == 4; }

void NormalizeDecode(v1::DecodeImage& stage, const std::string& path, SpecProblems& problems) {
  const double accept = stage.truncated().accept();
  if (stage.has_truncated() && !(accept > 0 && accept <= 1)) {
    problems.Add(path + ".truncated.accept",
                 "is required: the share of its rows that an image must have, above 0, at most 1");
  }
  const uint32_t channels = stage.channels();
  if ((channels != 0 && !IsChannels(channels)) || !v1::Color_IsValid(stage.color())) return;
  if (stage.color() == v1::COLOR_UNSPECIFIED) {
    stage.set_color(channels == 1   ? v1::COLOR_GRAY
                    : channels == 4 ? v1::COLOR_RGBA
                                    : v1::COLOR_RGB);
  }
  const uint32_t of_color = static_cast<uint32_t>(DecodedChannels(stage));
  if (channels != 0 && channels != of_color) {
    problems.Add(path + ".channels", "is ", channels, ", but the color has ", of_color,
                 "; leave one of them out");
  }
  stage.set_channels(of_color);
}

absl::StatusOr<FeatureSignature> InferDecode(const v1::DecodeImage& stage,
                                             const FeatureSignature& input,
                                             absl::string_view path) {
  if (input.kind != Kind::kEncoded) {
    return WrongInput(path, input, "encoded bytes",
                      input.kind == Kind::kImage ? "it is decoded already: leave this stage out"
                                                 : "name an encoded image with `input:`");
  }
  FeatureSignature output = input;
  output.kind = Kind::kImage;
  output.dtype = stage.keep_16_bit() ? v1::DTYPE_UINT16 : v1::DTYPE_UINT8;
  output.shape = {-1, -1, DecodedChannels(stage)};
  output.max_bytes = 0;
  return output;
}

// At `scale` 0, which the normal form leaves out, it is 1.
Decoding DecodingOf(const v1::DecodeImage& stage) {
  return {stage.max_pixels(), std::max(1, static_cast<int>(stage.scale())),
          stage.exif_orientation()};
}

}  // namespace

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

StageKinds DecodeKinds() {
  return Family(Declare<v1::DecodeImage>(
      {.options = {Option("channels")
                       .Otherwise("that of `color`")
                       .Only(IsChannels, "is $0; it can be 1 (gray), 3 (rgb) or 4 (rgba)"),
                   Option("color").Otherwise("`rgb`"),
                   Option("max_pixels")
                       .Default(kDefaultMaxPixels)
                       .FirstDefault(32'000'000)
                       .Between(1, kNoLimit),
                   Option("truncated").Otherwise("such a file is a sample error"),
                   Option("fancy_upsampling").ImpliedDefault(true),
                   Option("dct").ImpliedDefault(v1::DCT_METHOD_ISLOW),
                   Option("scale").ImpliedDefault(1).OneOf({1, 2, 4, 8},
                                                           "is $0; it can be 1, 2, 4 or 8")},
       .rules = NormalizeDecode,
       .infer = InferDecode,
       .decodes = DecodingOf}));
}

}  // namespace bulkhead

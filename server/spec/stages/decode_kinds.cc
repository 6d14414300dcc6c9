#include "absl/strings/str_cat.h"
#include "server/spec/stage_signature.h"
#include "server/spec/stages/feature_kind.h"
#include "server/spec/stages/kind_families.h"
#include "server/spec/stages/stage_checks.h"

namespace bulkhead {
namespace {

using Kind = FeatureSignature::Kind;

// One spelling of each default, so that equal stages have equal fingerprints.
void NormalizeJpegOptions(v1::DecodeImage& stage, const std::string& path, SpecProblems& problems) {
  const double accept = stage.truncated().accept();
  if (stage.has_truncated() && !(accept > 0 && accept <= 1)) {
    problems.Add(path + ".truncated.accept",
                 "is required: the share of its rows that an image must have, above 0, at most 1");
  }
  if (stage.fancy_upsampling()) stage.clear_fancy_upsampling();
  if (!v1::DctMethod_IsValid(stage.dct())) {
    problems.Add(path + ".dct", absl::StrCat("has the unknown value ", stage.dct()));
  }
  if (stage.dct() == v1::DCT_METHOD_ISLOW) stage.clear_dct();
  if (stage.scale() == 1) stage.clear_scale();
  if (stage.scale() != 0 && stage.scale() != 2 && stage.scale() != 4 && stage.scale() != 8) {
    problems.Add(path + ".scale", absl::StrCat("is ", stage.scale(), "; it can be 1, 2, 4 or 8"));
  }
}

void NormalizeDecode(v1::DecodeImage& stage, const std::string& path, SpecProblems& problems) {
  const uint32_t channels = stage.channels();
  if (channels != 0 && channels != 1 && channels != 3 && channels != 4) {
    problems.Add(path + ".channels",
                 absl::StrCat("is ", channels, "; it can be 1 (gray), 3 (rgb) or 4 (rgba)"));
    return;
  }
  if (!v1::Color_IsValid(stage.color())) {
    problems.Add(path + ".color", absl::StrCat("has the unknown value ", stage.color()));
    return;
  }
  if (stage.color() == v1::COLOR_UNSPECIFIED) {
    stage.set_color(channels == 1   ? v1::COLOR_GRAY
                    : channels == 4 ? v1::COLOR_RGBA
                                    : v1::COLOR_RGB);
  }
  const uint32_t of_color = static_cast<uint32_t>(DecodedChannels(stage));
  if (channels != 0 && channels != of_color) {
    problems.Add(path + ".channels", absl::StrCat("is ", channels, ", but the color has ", of_color,
                                                  "; leave one of them out"));
  }
  stage.set_channels(of_color);
  if (stage.max_pixels() == 0) stage.set_max_pixels(kDefaultMaxPixels);
  NormalizeJpegOptions(stage, path, problems);
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

}  // namespace

std::vector<NumberedKind> DecodeKinds() {
  std::vector<NumberedKind> kinds;
  kinds.push_back(ImageKind<v1::DecodeImage>(NormalizeDecode, InferDecode));
  return kinds;
}

}  // namespace bulkhead

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/spec/stages/feature_kind.h"
#include "server/spec/stages/kind_families.h"
#include "server/spec/stages/stage_checks.h"

namespace bulkhead {
namespace {

using Signature = absl::StatusOr<FeatureSignature>;

constexpr double kMaxFactor = 1000;
constexpr double kMaxHue = 0.5;
constexpr uint32_t kMaxKernel = 255;
constexpr double kMaxSigma = 1000;
constexpr double kMaxRatio = 1000;

// `range`: one number d that stands for [middle − d, middle + d], cut off at `low`, or [low, high]
// itself; every number within [low, high].
void NormalizeRange(Numbers& range, double middle, double low, double high, const std::string& path,
                    SpecProblems& problems) {
  if (range.empty()) return;
  if (range.size() == 1) {
    const double reach = range[0];
    if (!(reach >= 0 && middle + reach <= high)) {
      problems.Add(
          path, absl::StrCat("is ", reach, "; one number must lie between 0 and ", high - middle));
      return;
    }
    range.Clear();
    range.Add(std::max(low, middle - reach));
    range.Add(middle + reach);
    return;
  }
  const bool fits =
      range.size() == 2 && range[0] >= low && range[0] <= range[1] && range[1] <= high;
  if (!fits) {
    problems.Add(path, absl::StrCat("must be one number, or two [low, high] with ", low,
                                    " <= low <= high <= ", high));
  }
}

void NormalizeJitter(v1::ColorJitter& stage, const std::string& path, SpecProblems& problems) {
  if (stage.brightness_size() + stage.contrast_size() + stage.saturation_size() +
          stage.hue_size() ==
      0) {
    problems.Add(path, "changes nothing: give one of brightness, contrast, saturation and hue");
  }
  NormalizeRange(*stage.mutable_brightness(), 1, 0, kMaxFactor, path + ".brightness", problems);
  NormalizeRange(*stage.mutable_contrast(), 1, 0, kMaxFactor, path + ".contrast", problems);
  NormalizeRange(*stage.mutable_saturation(), 1, 0, kMaxFactor, path + ".saturation", problems);
  NormalizeRange(*stage.mutable_hue(), 0, -kMaxHue, kMaxHue, path + ".hue", problems);
  NormalizeProbability(stage, 1, path, problems);
}

// `range` as above; [low, high] where the spec is silent.
void NormalizeRangeOr(Numbers& range, double low, double high, double least, double most,
                      const std::string& path, SpecProblems& problems) {
  if (range.empty()) {
    range.Add(low);
    range.Add(high);
  }
  if (range.size() == 2 && range[0] >= least && range[0] <= range[1] && range[1] <= most) return;
  problems.Add(path, absl::StrCat("must be two numbers [low, high] with ", least,
                                  " <= low <= high <= ", most));
}

void NormalizeDistort(v1::RandomPhotometricDistort& stage, const std::string& path,
                      SpecProblems& problems) {
  NormalizeRangeOr(*stage.mutable_brightness(), 0.875, 1.125, 0, kMaxFactor, path + ".brightness",
                   problems);
  NormalizeRangeOr(*stage.mutable_contrast(), 0.5, 1.5, 0, kMaxFactor, path + ".contrast",
                   problems);
  NormalizeRangeOr(*stage.mutable_saturation(), 0.5, 1.5, 0, kMaxFactor, path + ".saturation",
                   problems);
  NormalizeRangeOr(*stage.mutable_hue(), -0.05, 0.05, -kMaxHue, kMaxHue, path + ".hue", problems);
  NormalizeProbability(stage, 0.5, path, problems);
}

absl::Status CheckKernel(uint32_t kernel, absl::string_view path) {
  const std::string place = absl::StrCat(path, ".kernel");
  if (kernel == 0) {
    return SpecError(place, "is required: the odd width of the kernel in pixels");
  }
  if (kernel % 2 == 1 && kernel <= kMaxKernel) return absl::OkStatus();
  return SpecError(place, absl::StrCat("is ", kernel, "; it must be odd and at most ", kMaxKernel));
}

absl::Status CheckBits(uint32_t bits, absl::string_view path) {
  const std::string place = absl::StrCat(path, ".bits");
  if (bits == 0) return SpecError(place, "is required: how many upper bits to keep, 1 to 8");
  if (bits <= 8) return absl::OkStatus();
  return SpecError(place, absl::StrCat("is ", bits, "; a value has 8 bits"));
}

void NormalizeBlur(v1::GaussianBlur& stage, const std::string& path, SpecProblems& problems) {
  const absl::Status kernel = CheckKernel(stage.kernel(), path);
  if (!kernel.ok()) problems.Add(kernel);
  if (stage.sigma_size() == 1) stage.add_sigma(stage.sigma(0));
  NormalizeBounds(*stage.mutable_sigma(), 0.1, 2, kMaxSigma, path + ".sigma", problems);
  NormalizeProbability(stage, 1, path, problems);
}

void NormalizeErasing(v1::RandomErasing& stage, const std::string& path, SpecProblems& problems) {
  NormalizeProbability(stage, 0.5, path, problems);
  NormalizeBounds(*stage.mutable_scale(), 0.02, 0.33, 1, path + ".scale", problems);
  NormalizeBounds(*stage.mutable_ratio(), 0.3, 3.3, kMaxRatio, path + ".ratio", problems);
  NormalizeFill(*stage.mutable_fill(), 0, path, problems);
}

void NormalizePosterize(v1::Posterize& stage, const std::string& path, SpecProblems& problems) {
  const absl::Status bits = CheckBits(stage.bits(), path);
  if (!bits.ok()) problems.Add(bits);
  NormalizeProbability(stage, 1, path, problems);
}

void NormalizeSolarize(v1::Solarize& stage, const std::string& path, SpecProblems& problems) {
  if (!stage.has_threshold()) stage.set_threshold(128);
  if (stage.threshold() > 255) {
    problems.Add(path + ".threshold",
                 absl::StrCat("is ", stage.threshold(), "; a pixel's values end at 255"));
  }
  NormalizeProbability(stage, 1, path, problems);
}

// Stages whose only option is how often they act.
template <typename Chancy>
void NormalizeChance(Chancy& stage, const std::string& path, SpecProblems& problems) {
  NormalizeProbability(stage, 1, path, problems);
}

// The image as it was, with any number of channels.
template <typename Stage>
Signature InferSame(const Stage&, const FeatureSignature& input, absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, input));
  return input;
}

template <typename Stage>
Signature InferSameRgb(const Stage&, const FeatureSignature& input, absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckRgb(path, input));
  return input;
}

Signature InferErasing(const v1::RandomErasing& stage, const FeatureSignature& input,
                       absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, input));
  BULKHEAD_RETURN_IF_ERROR(CheckFill(stage.fill(), input, path));
  return input;
}

Signature InferBlur(const v1::GaussianBlur& stage, const FeatureSignature& input,
                    absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckKernel(stage.kernel(), path));
  return InferSame(stage, input, path);
}

Signature InferPosterize(const v1::Posterize& stage, const FeatureSignature& input,
                         absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckBits(stage.bits(), path));
  return InferSame(stage, input, path);
}

template <typename Stage>
NumberedKind ChanceKind() {
  return ImageKind<Stage>(NormalizeChance<Stage>, InferSame<Stage>, {.is_random = true},
                          ActsByChance<Stage>);
}

// Whether something is drawn from a range.
bool IsOpen(const Numbers& range) { return range.size() == 2 && range[0] != range[1]; }

bool JitterDraws(const v1::ColorJitter& stage) {
  if (stage.probability() == 0 || ActsByChance(stage)) return stage.probability() > 0;
  int ranges = 0;
  bool open = false;
  for (const Numbers* range :
       {&stage.brightness(), &stage.contrast(), &stage.saturation(), &stage.hue()}) {
    ranges += range->empty() ? 0 : 1;
    open |= IsOpen(*range);
  }
  return open || ranges > 1;  // the order of two is drawn, too
}

bool BlurDraws(const v1::GaussianBlur& stage) {
  return ActsByChance(stage) || (stage.probability() > 0 && IsOpen(stage.sigma()));
}

bool ErasingDraws(const v1::RandomErasing& stage) { return stage.probability() > 0; }

}  // namespace

std::vector<NumberedKind> ColorKinds() {
  constexpr StageTraits kRandom = {.is_random = true};
  std::vector<NumberedKind> kinds;
  kinds.push_back(ImageKind<v1::ColorJitter>(NormalizeJitter, InferSameRgb<v1::ColorJitter>,
                                             kRandom, JitterDraws));
  kinds.push_back(ImageKind<v1::RandomPhotometricDistort>(
      NormalizeDistort, InferSameRgb<v1::RandomPhotometricDistort>, kRandom));
  kinds.push_back(ImageKind<v1::Grayscale>(NormalizeChance<v1::Grayscale>,
                                           InferSameRgb<v1::Grayscale>, kRandom,
                                           ActsByChance<v1::Grayscale>));
  kinds.push_back(ImageKind<v1::GaussianBlur>(NormalizeBlur, InferBlur, kRandom, BlurDraws));
  kinds.push_back(
      ImageKind<v1::RandomErasing>(NormalizeErasing, InferErasing, kRandom, ErasingDraws));
  kinds.push_back(ChanceKind<v1::Equalize>());
  kinds.push_back(ChanceKind<v1::Autocontrast>());
  kinds.push_back(ImageKind<v1::Posterize>(NormalizePosterize, InferPosterize, kRandom,
                                           ActsByChance<v1::Posterize>));
  kinds.push_back(ImageKind<v1::Solarize>(NormalizeSolarize, InferSame<v1::Solarize>, kRandom,
                                          ActsByChance<v1::Solarize>));
  return kinds;
}

}  // namespace bulkhead

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/stages/declaration/families.h"
#include "server/stages/declaration/feature_kind.h"

namespace bulkhead {
namespace {

constexpr double kMaxFactor = 1000;
constexpr double kMaxHue = 0.5;

// `range`: one number d for [middle − d, middle + d], cut off at `low`, or [low, high] itself; all
// numbers within [low, high].
void NormalizeRange(Doubles& range, double middle, double low, double high, const std::string& path,
                    SpecProblems& problems) {
  if (range.empty()) return;
  if (range.size() == 1) {
    const double reach = range[0];
    if (!(reach >= 0 && middle + reach <= high)) {
      problems.Add(path, "is ", reach, "; one number must lie between 0 and ", high - middle);
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
    problems.Add(path, "must be one number, or two [low, high] with ", low,
                 " <= low <= high <= ", high);
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
}

// Whether a number is drawn from a range.
bool IsOpen(const Doubles& range) { return range.size() == 2 && range[0] != range[1]; }

bool JitterDraws(const v1::ColorJitter& stage) {
  if (stage.probability() == 0 || ActsByChance(stage)) return stage.probability() > 0;
  int ranges = 0;
  bool open = false;
  for (const Doubles* range :
       {&stage.brightness(), &stage.contrast(), &stage.saturation(), &stage.hue()}) {
    ranges += range->empty() ? 0 : 1;
    open |= IsOpen(*range);
  }
  return open || ranges > 1;  // the order of two is drawn, too
}

bool BlurDraws(const v1::GaussianBlur& stage) {
  return ActsByChance(stage) || (stage.probability() > 0 && IsOpen(stage.sigma()));
}

bool IsOdd(double number) { return static_cast<uint32_t>(number) % 2 == 1; }

}  // namespace

StageKinds ColorKinds() {
  constexpr StageTraits kRandom = {.is_random = true};
  return Family(
      Declare<v1::ColorJitter>({.options = {Option("brightness").Otherwise("unchanged"),
                                            Option("contrast").Otherwise("unchanged"),
                                            Option("saturation").Otherwise("unchanged"),
                                            Option("hue").Otherwise("unchanged"), Probability(1)},
                                .rules = NormalizeJitter,
                                .infer = InferSameRgb,
                                .traits = kRandom,
                                .draws = JitterDraws}),
      Declare<v1::RandomPhotometricDistort>(
          {.options = {Option("brightness").Default({0.875, 1.125}).Range(0, kMaxFactor),
                       Option("contrast").Default({0.5, 1.5}).Range(0, kMaxFactor),
                       Option("saturation").Default({0.5, 1.5}).Range(0, kMaxFactor),
                       Option("hue").Default({-0.05, 0.05}).Range(-kMaxHue, kMaxHue),
                       Probability(0.5)},
           .infer = InferSameRgb,
           .traits = kRandom}),
      Declare<v1::Grayscale>({.options = {Probability(1)},
                              .infer = InferSameRgb,
                              .traits = kRandom,
                              .draws = ActsByChance}),
      Declare<v1::GaussianBlur>(
          {.options = {Option("kernel")
                           .Required("the odd width of the kernel in pixels", "5")
                           .Only(IsOdd, "is $0; it must be odd and at most $2")
                           .Between(1, 255, "is $0; it must be odd and at most $2"),
                       Option("sigma").OneStandsFor(2).Default({0.1, 2}).RangeAbove(0, 1000),
                       Probability(1)},
           .traits = kRandom,
           .draws = BlurDraws}),
      Declare<v1::RandomErasing>(
          {.options = {Probability(0.5), Option("scale").Default({0.02, 0.33}).RangeAbove(0, 1),
                       Option("ratio").Default({0.3, 3.3}).RangeAbove(0, 1000), Fill(0)},
           .infer = InferFilled<v1::RandomErasing>,
           .traits = kRandom,
           .draws = [](const v1::RandomErasing& stage) { return stage.probability() > 0; }}),
      Declare<v1::Equalize>(
          {.options = {Probability(1)}, .traits = kRandom, .draws = ActsByChance}),
      Declare<v1::Autocontrast>(
          {.options = {Probability(1)}, .traits = kRandom, .draws = ActsByChance}),
      Declare<v1::Posterize>({.options = {Option("bits")
                                              .Required("how many upper bits to keep, 1 to 8", "4")
                                              .Between(1, 8, "is $0; a value has 8 bits"),
                                          Probability(1)},
                              .traits = kRandom,
                              .draws = ActsByChance}),
      Declare<v1::Solarize>({.options = {Option("threshold")
                                             .Default(128)
                                             .Between(0, 255, "is $0; a pixel's values end at 255"),
                                         Probability(1)},
                             .traits = kRandom,
                             .draws = ActsByChance}));
}

}  // namespace bulkhead

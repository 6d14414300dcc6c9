#include <climits>
#include <map>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/stages/declaration/families.h"
#include "server/stages/declaration/feature_kind.h"
#include "server/stages/declaration/stage_checks.h"

namespace bulkhead {
namespace {

using Signature = absl::StatusOr<FeatureSignature>;

// Checks that `antialias` has an interpolation that can smooth.
template <typename Resizing>
void CheckAntialias(Resizing& stage, const std::string& path, SpecProblems& problems) {
  if (!stage.antialias() || stage.interpolation() == v1::INTERPOLATION_LINEAR ||
      stage.interpolation() == v1::INTERPOLATION_CUBIC) {
    return;
  }
  problems.Add(path + ".antialias", "goes with linear and cubic; area shrinks smoothly anyway");
}

// Checks that the new size is given in exactly one way.
void CheckExtents(const v1::Resize& stage, const std::string& path, SpecProblems& problems) {
  const int ways = (stage.size_size() > 0) + (stage.shorter_side() > 0) +
                   (stage.longer_side() > 0) + (stage.factor() != 0);
  if (ways == 0) {
    return problems.Add(path + ".size", Size().needs + "; write `resize: {size: 224}`");
  }
  if (ways > 1) {
    return problems.Add(
        path, "names the new size twice: give one of size, shorter_side, longer_side and factor");
  }
  if (stage.max_size() > 0 && stage.max_size() < stage.shorter_side()) {
    problems.Add(path + ".max_size",
                 "bounds the longer side, so it cannot be below shorter_side, which is ",
                 stage.shorter_side());
  }
  if (stage.max_size() > 0 && stage.shorter_side() == 0) {
    problems.Add(path + ".max_size", "goes with shorter_side; leave it out");
  }
  if (stage.size_size() > 0 && stage.rounding() != v1::ROUNDING_UNSPECIFIED) {
    problems.Add(path + ".rounding", "rounds a computed size; `size` is exact, so leave it out");
  }
}

void NormalizeResize(v1::Resize& stage, const std::string& path, SpecProblems& problems) {
  CheckExtents(stage, path, problems);
  CheckAntialias(stage, path, problems);
  // One spelling of the default, so that equal stages have equal fingerprints.
  if (stage.rounding() == v1::ROUNDING_TRUNCATE) stage.clear_rounding();
  if (stage.centers() == v1::PIXEL_CENTERS_UNSPECIFIED) return;
  if (stage.interpolation() != v1::INTERPOLATION_LINEAR &&
      stage.interpolation() != v1::INTERPOLATION_NEAREST) {
    problems.Add(path + ".centers", "other than half_pixel go with linear and nearest");
  } else if (stage.antialias()) {
    problems.Add(path + ".centers", "must be half_pixel with antialias");
  }
}

// Checks that `input` is an image and, with `area`, has no more channels than OpenCV's area
// interpolation takes.
template <typename Resizing>
absl::Status CheckResizable(const Resizing& stage, const FeatureSignature& input,
                            absl::string_view path) {
  constexpr int64_t kMaxAreaChannels = 4;
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, input));
  if (stage.interpolation() != v1::INTERPOLATION_AREA || input.shape.back() <= kMaxAreaChannels) {
    return absl::OkStatus();
  }
  return SpecError(absl::StrCat(path, ".interpolation"), "`area` takes images of at most ",
                   kMaxAreaChannels, " channels, but `", input.name, "` is ",
                   DescribeFeature(input), " here; resize before concat");
}

Signature InferResize(const v1::Resize& stage, const FeatureSignature& input,
                      absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckResizable(stage, input, path));
  if (stage.shorter_side() == 0 && stage.longer_side() == 0 && stage.factor() == 0) {
    if (stage.size().empty()) return SpecError(absl::StrCat(path, ".size"), Size().needs);
    return WithSize(stage.size(), input);
  }
  // Known only once there is an image, which may have the most pixels.
  FeatureSignature output = input;
  output.shape[0] = output.shape[1] = -1;
  return output;
}

// Checks that a crop of `size` fits into `input` with `added` pixels, as far as sizes are known.
Signature InferCrop(const Extents& size, const uint32_t (&added)[2], const FeatureSignature& input,
                    absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, input));
  const FeatureSignature output = WithSize(size, input);
  for (int i = 0; i < 2; ++i) {
    if (input.shape[i] != -1 && output.shape[i] > input.shape[i] + added[i]) {
      return SpecError(absl::StrCat(path, ".size"), "cuts ", output.shape[0], "x", output.shape[1],
                       " out of an image that is ", input.shape[0], "x", input.shape[1],
                       " here; crop less, or resize to more first");
    }
  }
  return output;
}

Signature InferCenterCrop(const v1::CenterCrop& stage, const FeatureSignature& input,
                          absl::string_view path) {
  return InferCrop(stage.size(), {0, 0}, input, path);
}

Signature InferFiveCrop(const v1::FiveCrop& stage, const FeatureSignature& input,
                        absl::string_view path) {
  BULKHEAD_ASSIGN_OR_RETURN(FeatureSignature output, InferCrop(stage.size(), {0, 0}, input, path));
  output.kind = FeatureSignature::Kind::kTensor;
  output.is_stack = true;
  output.shape.insert(output.shape.begin(), 5);
  return output;
}

// One number for all sides, or [top, bottom, left, right]; normalized to four.
Option Padding() {
  return Option("padding")
      .OneStandsFor(4)
      .Count(4, 4, "has $0 numbers; give [top, bottom, left, right], or one for all")
      .Between(0, kMaxExtent, "holds $0, over the limit of $2");
}

Signature InferRandomCrop(const v1::RandomCrop& stage, const FeatureSignature& input,
                          absl::string_view path) {
  const bool padded = stage.padding_size() == 4;
  const uint32_t added[2] = {padded ? stage.padding(0) + stage.padding(1) : 0,
                             padded ? stage.padding(2) + stage.padding(3) : 0};
  BULKHEAD_ASSIGN_OR_RETURN(FeatureSignature output, InferCrop(stage.size(), added, input, path));
  BULKHEAD_RETURN_IF_ERROR(CheckFill(stage.fill(), input, path));
  return output;
}

void NormalizePad(v1::Pad& stage, const std::string& path, SpecProblems& problems) {
  if (stage.size_size() > 0 && stage.padding_size() > 0) {
    problems.Add(path, "has padding and size; give one of them");
  } else if (stage.size_size() + stage.padding_size() == 0) {
    problems.Add(path + ".padding",
                 "has 0 numbers; give [top, bottom, left, right], or one for all");
  }
}

Signature InferPad(const v1::Pad& stage, const FeatureSignature& input, absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, input));
  BULKHEAD_RETURN_IF_ERROR(CheckFill(stage.fill(), input, path));
  if (stage.size_size() > 0) {
    const FeatureSignature output = WithSize(stage.size(), input);
    for (int i = 0; i < 2; ++i) {
      if (input.shape[i] > output.shape[i]) {
        return SpecError(absl::StrCat(path, ".size"), "is smaller than the image, which is ",
                         input.shape[0], "x", input.shape[1], " here; crop or resize it instead");
      }
    }
    return output;
  }
  FeatureSignature output = input;
  for (int i = 0; i < 2; ++i) {
    if (output.shape[i] == -1 || stage.padding_size() != 4) continue;
    output.shape[i] += int64_t{stage.padding(2 * i)} + stage.padding(2 * i + 1);
  }
  return output;
}

// An image of `size`.
template <typename Resizing>
Signature InferResized(const Resizing& stage, const FeatureSignature& input,
                       absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckResizable(stage, input, path));
  return WithSize(stage.size(), input);
}

Signature InferLetterbox(const v1::Letterbox& stage, const FeatureSignature& input,
                         absl::string_view path) {
  BULKHEAD_ASSIGN_OR_RETURN(FeatureSignature output, InferResized(stage, input, path));
  BULKHEAD_RETURN_IF_ERROR(CheckFill(stage.fill(), input, path));
  return output;
}

void NormalizeZoomOut(v1::RandomZoomOut& stage, const std::string& path, SpecProblems& problems) {
  if (stage.side_range(0) > 0 && stage.side_range(0) < 1) {
    problems.Add(path + ".side_range",
                 "begins below 1, where the canvas is smaller than the image");
  }
}

Signature InferZoomOut(const v1::RandomZoomOut& stage, const FeatureSignature& input,
                       absl::string_view path) {
  BULKHEAD_ASSIGN_OR_RETURN(FeatureSignature output, InferFilled(stage, input, path));
  output.shape[0] = output.shape[1] = -1;
  return output;
}

// `concat`: several images become one.
class ConcatKind : public StageKind {
 public:
  ConcatKind()
      : StageKind(v1::Concat::descriptor(),
                  {Option("inputs").Needs(kTwoImages).Count(1, INT_MAX, kTwoImages),
                   Option("output").Required("what the result is called")},
                  {.holds_result = true}) {}

  std::vector<std::string> Reads(const v1::Stage& stage) const override {
    return {stage.concat().inputs().begin(), stage.concat().inputs().end()};
  }

  std::vector<std::string> Makes(const v1::Stage& stage) const override {
    return {stage.concat().output()};
  }

  void CheckRules(v1::Stage& stage, const std::string& path,
                  SpecProblems& problems) const override {
    std::map<std::string, int> times;
    for (const std::string& name : stage.concat().inputs()) {
      if (++times[name] != 2) continue;
      problems.Add(path + ".inputs", "names `", name, "` twice");
    }
  }

  absl::Status Infer(const v1::Stage& stage, absl::string_view path,
                     std::vector<FeatureSignature>& features) const override {
    FeatureSignature output;
    const bool stacks = stage.concat().stack();
    const std::vector<std::string> reads = Reads(stage);
    if (reads.size() < 2) return SpecError(absl::StrCat(path, ".inputs"), kTwoImages);
    for (const std::string& name : reads) {
      const FeatureSignature& input = FeatureNamed(features, name);
      BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, input));
      if (output.shape.empty()) {
        output = input;
        continue;
      }
      for (int i = 0; i < (stacks ? 3 : 2); ++i) {
        if (input.shape[i] != output.shape[i]) {
          return SpecError(absl::StrCat(path, ".inputs"), "`", input.name, "` is ",
                           DescribeFeature(input), ", but `", output.name, "` is ",
                           DescribeFeature(output), "; ",
                           i == 2 ? "to stack them, decode them with equally many channels"
                                  : "resize them to one size first");
        }
      }
      if (!stacks) output.shape[2] += input.shape[2];
    }
    if (stacks) {
      if (output.shape[0] == -1 || output.shape[1] == -1) {
        return SpecError(absl::StrCat(path, ".stack"),
                         "needs images of a known size: resize or crop them first");
      }
      output.kind = FeatureSignature::Kind::kTensor;
      output.is_stack = true;
      output.shape.insert(output.shape.begin(), static_cast<int64_t>(reads.size()));
    }
    for (const std::string& name : reads) {
      features.erase(features.begin() + (&FeatureNamed(features, name) - features.data()));
    }
    output.name = stage.concat().output();
    output.path = std::string(path);
    return InsertFeature(std::move(output), absl::StrCat(path, ".output"), features);
  }

 private:
  static constexpr char kTwoImages[] =
      "needs the names of at least two images, or of a list of them";
};

}  // namespace

StageKinds GeometryKinds() {
  constexpr auto kMoves = StageTraits::Motion::kMoves;
  constexpr StageTraits kHeld = {.holds_result = true, .motion = kMoves};
  constexpr StageTraits kEnlarging = {.holds_result = true, .may_enlarge = true, .motion = kMoves};
  constexpr StageTraits kCrop = {.holds_result = true, .motion = kMoves, .cuts_part = true};
  constexpr StageTraits kRandomCrop = {
      .is_random = true, .holds_result = true, .motion = kMoves, .cuts_part = true};
  constexpr StageTraits kRandomEnlarging = {
      .is_random = true, .holds_result = true, .may_enlarge = true, .motion = kMoves};
  constexpr StageTraits kRandom = {.is_random = true, .motion = kMoves};
  const auto side = [](const char* name) {
    return Option(name).Between(1, kMaxExtent, "is $0; it must lie between $1 and $2");
  };
  return Family(
      Declare<v1::Resize>(
          {.options = {OptionalSize(), side("shorter_side"), side("longer_side"), side("max_size"),
                       Option("factor").Above(0, 1000), Interpolation(),
                       Option("rounding").Otherwise("`truncate`"),
                       Option("centers").ImpliedDefault(v1::PIXEL_CENTERS_HALF_PIXEL)},
           .rules = NormalizeResize,
           .infer = InferResize,
           .traits =
               {.holds_result = true, .may_enlarge = true, .motion = kMoves, .evens_sizes = true}}),
      Declare<v1::CenterCrop>({.options = {Size()}, .infer = InferCenterCrop, .traits = kCrop}),
      Declare<v1::FiveCrop>({.options = {Size()},
                             .infer = InferFiveCrop,
                             .traits = {.motion = StageTraits::Motion::kReplaces}}),
      Declare<v1::RandomResizedCrop>(
          {.options = {Size(), Option("scale").Default({0.08, 1}).RangeAbove(0, 1),
                       Option("ratio").Default({0.75, 1.3333333333333333}).RangeAbove(0, 1000),
                       Interpolation()},
           .rules = CheckAntialias,
           .infer = InferResized<v1::RandomResizedCrop>,
           .traits = kRandomCrop}),
      Declare<v1::RandomHorizontalFlip>(
          {.options = {Probability(0.5)}, .traits = kRandom, .draws = ActsByChance}),
      Declare<v1::RandomVerticalFlip>(
          {.options = {Probability(0.5)}, .traits = kRandom, .draws = ActsByChance}),
      Declare<v1::RandomCrop>({.options = {Size(), Padding(), Fill(0)},
                               .infer = InferRandomCrop,
                               .traits = kRandomCrop}),
      Declare<v1::Pad>({.options = {OptionalSize(), Padding(), Fill(0)},
                        .rules = NormalizePad,
                        .infer = InferPad,
                        .traits = kEnlarging}),
      Declare<v1::Letterbox>({.options = {Size(), Interpolation(), Fill(114)},
                              .infer = InferLetterbox,
                              .traits = kHeld}),
      Declare<v1::RandomZoomOut>(
          {.options = {Probability(0.5), Option("side_range").Default({1, 4}).RangeAbove(0, 100),
                       Fill(0)},
           .rules = NormalizeZoomOut,
           .infer = InferZoomOut,
           .traits = kRandomEnlarging}),
      std::make_unique<ConcatKind>());
}

}  // namespace bulkhead

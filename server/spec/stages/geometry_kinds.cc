#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/spec/stages/feature_kind.h"
#include "server/spec/stages/kind_families.h"
#include "server/spec/stages/stage_checks.h"

namespace bulkhead {
namespace {

using Signature = absl::StatusOr<FeatureSignature>;

constexpr double kMaxFactor = 1000;

void CheckExtent(uint32_t extent, const std::string& path, SpecProblems& problems) {
  if (extent <= kMaxExtent) return;
  problems.Add(path, absl::StrCat("is ", extent, "; it must lie between 1 and ", kMaxExtent));
}

// How the new size is given; exactly one way.
void NormalizeExtents(v1::Resize& stage, const std::string& path, SpecProblems& problems) {
  const int ways = (stage.size_size() > 0) + (stage.shorter_side() > 0) +
                   (stage.longer_side() > 0) + (stage.factor() != 0);
  if (ways == 0) return NormalizeSize(*stage.mutable_size(), path, problems);
  if (ways > 1) {
    problems.Add(path,
                 "names the new size twice: give one of size, shorter_side, longer_side and "
                 "factor");
    return;
  }
  if (stage.size_size() > 0) NormalizeSize(*stage.mutable_size(), path, problems);
  CheckExtent(stage.shorter_side(), path + ".shorter_side", problems);
  CheckExtent(stage.longer_side(), path + ".longer_side", problems);
  CheckExtent(stage.max_size(), path + ".max_size", problems);
  if (stage.max_size() > 0 && stage.max_size() < stage.shorter_side()) {
    problems.Add(path + ".max_size", absl::StrCat("bounds the longer side, so it cannot be below "
                                                  "shorter_side, which is ",
                                                  stage.shorter_side()));
  }
  if (stage.max_size() > 0 && stage.shorter_side() == 0) {
    problems.Add(path + ".max_size", "goes with shorter_side; leave it out");
  }
  if (stage.factor() != 0 && !(stage.factor() > 0 && stage.factor() <= kMaxFactor)) {
    problems.Add(path + ".factor",
                 absl::StrCat("must be a number above 0 and at most ", kMaxFactor));
  }
  if (stage.size_size() > 0 && stage.rounding() != v1::ROUNDING_UNSPECIFIED) {
    problems.Add(path + ".rounding", "rounds a computed size; `size` is exact, so leave it out");
  }
}

// With a message when `antialias` has nothing to smooth with.
template <typename Resizing>
void CheckAntialias(const Resizing& stage, const std::string& path, SpecProblems& problems) {
  if (!stage.antialias() || stage.interpolation() == v1::INTERPOLATION_LINEAR ||
      stage.interpolation() == v1::INTERPOLATION_CUBIC) {
    return;
  }
  problems.Add(path + ".antialias", "goes with linear and cubic; area shrinks smoothly anyway");
}

void NormalizeResize(v1::Resize& stage, const std::string& path, SpecProblems& problems) {
  NormalizeExtents(stage, path, problems);
  NormalizeInterpolation(stage, path, problems);
  if (!v1::Rounding_IsValid(stage.rounding())) {
    problems.Add(path + ".rounding", absl::StrCat("has the unknown value ", stage.rounding()));
  }
  if (!v1::PixelCenters_IsValid(stage.centers())) {
    problems.Add(path + ".centers", absl::StrCat("has the unknown value ", stage.centers()));
  }
  const bool linear = stage.interpolation() == v1::INTERPOLATION_LINEAR;
  CheckAntialias(stage, path, problems);
  // One spelling of each default, so that equal stages have equal fingerprints.
  if (stage.centers() == v1::PIXEL_CENTERS_HALF_PIXEL) stage.clear_centers();
  if (stage.rounding() == v1::ROUNDING_TRUNCATE) stage.clear_rounding();
  if (stage.centers() == v1::PIXEL_CENTERS_UNSPECIFIED) return;
  if (!linear && stage.interpolation() != v1::INTERPOLATION_NEAREST) {
    problems.Add(path + ".centers", "other than half_pixel go with linear and nearest");
  } else if (stage.antialias()) {
    problems.Add(path + ".centers", "must be half_pixel with antialias");
  }
}

// That `input` is an image with no more channels than OpenCV's area interpolation takes, where that
// is what the stage uses.
template <typename Resizing>
absl::Status CheckResizable(const Resizing& stage, const FeatureSignature& input,
                            absl::string_view path) {
  constexpr int64_t kMaxAreaChannels = 4;
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, input));
  if (stage.interpolation() != v1::INTERPOLATION_AREA || input.shape.back() <= kMaxAreaChannels) {
    return absl::OkStatus();
  }
  return SpecError(
      absl::StrCat(path, ".interpolation"),
      absl::StrCat("`area` takes images of at most ", kMaxAreaChannels, " channels, but `",
                   input.name, "` is ", DescribeFeature(input), " here; resize before concat"));
}

Signature InferResize(const v1::Resize& stage, const FeatureSignature& input,
                      absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckResizable(stage, input, path));
  if (stage.shorter_side() == 0 && stage.longer_side() == 0 && stage.factor() == 0) {
    return WithSize(stage.size(), input, path);
  }
  // Known from an image only: as many pixels as any.
  FeatureSignature output = input;
  output.shape[0] = output.shape[1] = -1;
  return output;
}

void NormalizeCenterCrop(v1::CenterCrop& stage, const std::string& path, SpecProblems& problems) {
  NormalizeSize(*stage.mutable_size(), path, problems);
}

// That a crop of `size` fits into `input` with `added` pixels beside it, as far as that is known.
Signature InferCrop(const Extents& size, const uint32_t (&added)[2], const FeatureSignature& input,
                    absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, input));
  BULKHEAD_ASSIGN_OR_RETURN(FeatureSignature output, WithSize(size, input, path));
  for (int i = 0; i < 2; ++i) {
    if (input.shape[i] != -1 && output.shape[i] > input.shape[i] + added[i]) {
      return SpecError(absl::StrCat(path, ".size"),
                       absl::StrCat("cuts ", output.shape[0], "x", output.shape[1],
                                    " out of an image that is ", input.shape[0], "x",
                                    input.shape[1], " here; crop less, or resize to more first"));
    }
  }
  return output;
}

Signature InferCenterCrop(const v1::CenterCrop& stage, const FeatureSignature& input,
                          absl::string_view path) {
  return InferCrop(stage.size(), {0, 0}, input, path);
}

void NormalizeFiveCrop(v1::FiveCrop& stage, const std::string& path, SpecProblems& problems) {
  NormalizeSize(*stage.mutable_size(), path, problems);
}

Signature InferFiveCrop(const v1::FiveCrop& stage, const FeatureSignature& input,
                        absl::string_view path) {
  BULKHEAD_ASSIGN_OR_RETURN(FeatureSignature output, InferCrop(stage.size(), {0, 0}, input, path));
  output.kind = FeatureSignature::Kind::kTensor;
  output.is_stack = true;
  output.shape.insert(output.shape.begin(), 5);
  return output;
}

void NormalizeRandomResizedCrop(v1::RandomResizedCrop& stage, const std::string& path,
                                SpecProblems& problems) {
  NormalizeSize(*stage.mutable_size(), path, problems);
  NormalizeBounds(*stage.mutable_scale(), 0.08, 1, 1, path + ".scale", problems);
  NormalizeBounds(*stage.mutable_ratio(), 0.75, 1.3333333333333333, 1000, path + ".ratio",
                  problems);
  NormalizeInterpolation(stage, path, problems);
  CheckAntialias(stage, path, problems);
}

Signature InferRandomResizedCrop(const v1::RandomResizedCrop& stage, const FeatureSignature& input,
                                 absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckResizable(stage, input, path));
  return WithSize(stage.size(), input, path);
}

template <typename Flip>
void NormalizeFlip(Flip& stage, const std::string& path, SpecProblems& problems) {
  NormalizeProbability(stage, 0.5, path, problems);
}

template <typename Flip>
Signature InferFlip(const Flip&, const FeatureSignature& input, absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, input));
  return input;
}

// One number for all sides, or [top, bottom, left, right]: made four.
void NormalizePadding(Extents& padding, const std::string& path, SpecProblems& problems) {
  const std::string place = path + ".padding";
  if (padding.size() == 1) {
    for (int i = 0; i < 3; ++i) padding.Add(padding[0]);
  }
  if (padding.size() != 4) {
    problems.Add(place, absl::StrCat("has ", padding.size(),
                                     " numbers; give [top, bottom, left, right], or one for all"));
    return;
  }
  for (const uint32_t pixels : padding) {
    if (pixels > kMaxExtent) {
      problems.Add(place, absl::StrCat("holds ", pixels, ", over the limit of ", kMaxExtent));
      return;
    }
  }
}

void NormalizeRandomCrop(v1::RandomCrop& stage, const std::string& path, SpecProblems& problems) {
  NormalizeSize(*stage.mutable_size(), path, problems);
  if (!stage.padding().empty()) NormalizePadding(*stage.mutable_padding(), path, problems);
  NormalizeFill(*stage.mutable_fill(), 0, path, problems);
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
    return;
  }
  if (stage.size_size() == 0) {
    NormalizePadding(*stage.mutable_padding(), path, problems);
  } else {
    NormalizeSize(*stage.mutable_size(), path, problems);
  }
  NormalizeFill(*stage.mutable_fill(), 0, path, problems);
}

Signature InferPad(const v1::Pad& stage, const FeatureSignature& input, absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, input));
  BULKHEAD_RETURN_IF_ERROR(CheckFill(stage.fill(), input, path));
  if (stage.size_size() > 0) {
    BULKHEAD_ASSIGN_OR_RETURN(FeatureSignature output, WithSize(stage.size(), input, path));
    for (int i = 0; i < 2; ++i) {
      if (input.shape[i] > output.shape[i]) {
        return SpecError(absl::StrCat(path, ".size"),
                         absl::StrCat("is smaller than the image, which is ", input.shape[0], "x",
                                      input.shape[1], " here; crop or resize it instead"));
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

void NormalizeLetterbox(v1::Letterbox& stage, const std::string& path, SpecProblems& problems) {
  NormalizeSize(*stage.mutable_size(), path, problems);
  NormalizeInterpolation(stage, path, problems);
  NormalizeFill(*stage.mutable_fill(), 114, path, problems);
}

Signature InferLetterbox(const v1::Letterbox& stage, const FeatureSignature& input,
                         absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckResizable(stage, input, path));
  BULKHEAD_RETURN_IF_ERROR(CheckFill(stage.fill(), input, path));
  return WithSize(stage.size(), input, path);
}

constexpr double kMaxZoom = 100;

void NormalizeZoomOut(v1::RandomZoomOut& stage, const std::string& path, SpecProblems& problems) {
  NormalizeProbability(stage, 0.5, path, problems);
  NormalizeBounds(*stage.mutable_side_range(), 1, 4, kMaxZoom, path + ".side_range", problems);
  if (stage.side_range(0) > 0 && stage.side_range(0) < 1) {
    problems.Add(path + ".side_range",
                 "begins below 1, where the canvas is smaller than the image");
  }
  NormalizeFill(*stage.mutable_fill(), 0, path, problems);
}

Signature InferZoomOut(const v1::RandomZoomOut& stage, const FeatureSignature& input,
                       absl::string_view path) {
  BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, input));
  BULKHEAD_RETURN_IF_ERROR(CheckFill(stage.fill(), input, path));
  FeatureSignature output = input;
  output.shape[0] = output.shape[1] = -1;
  return output;
}

// `concat`: several images become one.
class ConcatKind : public StageKind {
 public:
  ConcatKind() : StageKind({.holds_result = true}) {}

  std::vector<std::string> Reads(const v1::Stage& stage) const override {
    return {stage.concat().inputs().begin(), stage.concat().inputs().end()};
  }

  std::vector<std::string> Makes(const v1::Stage& stage) const override {
    return {stage.concat().output()};
  }

  void Normalize(v1::Stage& stage, const std::string& path, SpecProblems& problems) const override {
    if (stage.concat().inputs_size() < 2) {
      problems.Add(path + ".inputs", "needs the names of at least two images");
    }
    std::map<std::string, int> times;
    for (const std::string& name : stage.concat().inputs()) {
      if (++times[name] == 2)
        problems.Add(path + ".inputs", absl::StrCat("names `", name, "` twice"));
    }
    if (stage.concat().output().empty()) {
      problems.Add(path + ".output", "is required: what the result is called");
    }
  }

  absl::Status Infer(const v1::Stage& stage, absl::string_view path,
                     std::vector<FeatureSignature>& features) const override {
    FeatureSignature output;
    for (const std::string& name : Reads(stage)) {
      const FeatureSignature& input = FeatureNamed(features, name);
      BULKHEAD_RETURN_IF_ERROR(CheckPixels(path, input));
      if (output.shape.empty()) {
        output = input;
        continue;
      }
      for (int i = 0; i < 2; ++i) {
        if (input.shape[i] != output.shape[i]) {
          return SpecError(
              absl::StrCat(path, ".inputs"),
              absl::StrCat("`", input.name, "` is ", DescribeFeature(input), ", but `", output.name,
                           "` is ", DescribeFeature(output), "; resize them to one size first"));
        }
      }
      output.shape[2] += input.shape[2];
    }
    for (const std::string& name : Reads(stage)) {
      features.erase(features.begin() + (&FeatureNamed(features, name) - features.data()));
    }
    output.name = stage.concat().output();
    output.path = std::string(path);
    return InsertFeature(std::move(output), absl::StrCat(path, ".output"), features);
  }
};

}  // namespace

std::vector<NumberedKind> GeometryKinds() {
  constexpr auto kMoves = StageTraits::Motion::kMoves;
  constexpr StageTraits kHeld = {.holds_result = true, .motion = kMoves};
  constexpr StageTraits kEnlarging = {.holds_result = true, .may_enlarge = true, .motion = kMoves};
  constexpr StageTraits kRandomHeld = {.is_random = true, .holds_result = true, .motion = kMoves};
  constexpr StageTraits kRandomEnlarging = {
      .is_random = true, .holds_result = true, .may_enlarge = true, .motion = kMoves};
  constexpr StageTraits kRandom = {.is_random = true, .motion = kMoves};
  std::vector<NumberedKind> kinds;
  kinds.push_back(ImageKind<v1::Resize>(NormalizeResize, InferResize, kEnlarging));
  kinds.push_back(ImageKind<v1::CenterCrop>(NormalizeCenterCrop, InferCenterCrop, kHeld));
  kinds.push_back(ImageKind<v1::FiveCrop>(NormalizeFiveCrop, InferFiveCrop,
                                          {.motion = StageTraits::Motion::kReplaces}));
  kinds.push_back(ImageKind<v1::RandomResizedCrop>(NormalizeRandomResizedCrop,
                                                   InferRandomResizedCrop, kRandomHeld));
  kinds.push_back(ImageKind<v1::RandomHorizontalFlip>(NormalizeFlip<v1::RandomHorizontalFlip>,
                                                      InferFlip<v1::RandomHorizontalFlip>, kRandom,
                                                      ActsByChance<v1::RandomHorizontalFlip>));
  kinds.push_back(ImageKind<v1::RandomVerticalFlip>(NormalizeFlip<v1::RandomVerticalFlip>,
                                                    InferFlip<v1::RandomVerticalFlip>, kRandom,
                                                    ActsByChance<v1::RandomVerticalFlip>));
  kinds.push_back(ImageKind<v1::RandomCrop>(NormalizeRandomCrop, InferRandomCrop, kRandomHeld));
  kinds.push_back(ImageKind<v1::Pad>(NormalizePad, InferPad, kEnlarging));
  kinds.push_back(ImageKind<v1::Letterbox>(NormalizeLetterbox, InferLetterbox, kHeld));
  kinds.push_back(ImageKind<v1::RandomZoomOut>(NormalizeZoomOut, InferZoomOut, kRandomEnlarging));
  kinds.emplace_back(StageField<v1::Concat>()->number(), std::make_unique<ConcatKind>());
  return kinds;
}

}  // namespace bulkhead

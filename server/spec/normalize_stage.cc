#include "server/spec/normalize_stage.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/spec/signature.h"
#include "server/spec/stage_signature.h"

namespace bulkhead {
namespace {

// The largest extent that any image format here can hold.
constexpr uint32_t kMaxExtent = 65'535;
constexpr uint32_t kMaxClasses = 1u << 30;

template <typename Sized>
void NormalizeSize(Sized& stage, const std::string& path, SpecProblems& problems) {
  const std::string place = path + ".size";
  if (stage.size_size() == 0) {
    problems.Add(place, "is required: [height, width], or one number for a square");
    return;
  }
  if (stage.size_size() > 2) {
    problems.Add(place, absl::StrCat("has ", stage.size_size(),
                                     " numbers; give [height, width], or one for a square"));
    return;
  }
  if (stage.size_size() == 1) stage.add_size(stage.size(0));
  for (const uint32_t extent : stage.size()) {
    if (extent < 1 || extent > kMaxExtent) {
      problems.Add(place, absl::StrCat("holds ", extent, "; each number must lie between 1 and ",
                                       kMaxExtent));
      return;
    }
  }
}

template <typename Resizing>
void NormalizeInterpolation(Resizing& stage, const std::string& path, SpecProblems& problems) {
  if (stage.interpolation() == v1::INTERPOLATION_UNSPECIFIED) {
    stage.set_interpolation(v1::INTERPOLATION_LINEAR);
  }
  if (!v1::Interpolation_IsValid(stage.interpolation())) {
    problems.Add(path + ".interpolation",
                 absl::StrCat("has the unknown value ", stage.interpolation()));
  }
}

void NormalizeStageOf(v1::DecodeImage& stage, const std::string& path, SpecProblems& problems) {
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
}

void NormalizeStageOf(v1::Resize& stage, const std::string& path, SpecProblems& problems) {
  NormalizeSize(stage, path, problems);
  NormalizeInterpolation(stage, path, problems);
}

void NormalizeStageOf(v1::CenterCrop& stage, const std::string& path, SpecProblems& problems) {
  NormalizeSize(stage, path, problems);
}

// A pair [low, high] with 0 < low ≤ high ≤ `limit`.
void NormalizeBounds(google::protobuf::RepeatedField<double>& bounds, double low, double high,
                     double limit, const std::string& path, SpecProblems& problems) {
  if (bounds.empty()) {
    bounds.Add(low);
    bounds.Add(high);
  }
  const bool fits =
      bounds.size() == 2 && bounds[0] > 0 && bounds[0] <= bounds[1] && bounds[1] <= limit;
  if (!fits) {
    problems.Add(path,
                 absl::StrCat("must be two numbers [low, high] with 0 < low <= high <= ", limit));
  }
}

void NormalizeStageOf(v1::RandomResizedCrop& stage, const std::string& path,
                      SpecProblems& problems) {
  NormalizeSize(stage, path, problems);
  NormalizeBounds(*stage.mutable_scale(), 0.08, 1, 1, path + ".scale", problems);
  NormalizeBounds(*stage.mutable_ratio(), 0.75, 1.3333333333333333, 1000, path + ".ratio",
                  problems);
  NormalizeInterpolation(stage, path, problems);
}

void NormalizeStageOf(v1::RandomHorizontalFlip& stage, const std::string& path,
                      SpecProblems& problems) {
  if (!stage.has_probability()) stage.set_probability(0.5);
  if (!(stage.probability() >= 0 && stage.probability() <= 1)) {
    problems.Add(path + ".probability", "must lie between 0 and 1");
  }
}

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

void NormalizeStageOf(v1::Normalize& stage, const std::string& path, SpecProblems& problems) {
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

void NormalizeStageOf(v1::Cast& stage, const std::string& path, SpecProblems& problems) {
  if (stage.dtype() == v1::DTYPE_UNSPECIFIED) {
    problems.Add(path + ".dtype", "is required: the element type to convert to");
  } else if (ElementBytes(stage.dtype()) == 0 || stage.dtype() == v1::DTYPE_BOOL) {
    problems.Add(path + ".dtype", "must be a numeric type");
  }
}

void NormalizeStageOf(v1::Layout& stage, const std::string& path, SpecProblems& problems) {
  if (stage.to() != v1::IMAGE_LAYOUT_NHWC && stage.to() != v1::IMAGE_LAYOUT_NCHW) {
    problems.Add(path + ".to", "is required: NHWC or NCHW");
  }
}

void NormalizeStageOf(v1::OneHot& stage, const std::string& path, SpecProblems& problems) {
  if (stage.classes() == 0) {
    problems.Add(path + ".classes", "is required: how many classes there are, at least 1");
  } else if (stage.classes() > kMaxClasses) {
    problems.Add(path + ".classes",
                 absl::StrCat("is ", stage.classes(), ", over the limit of ", kMaxClasses));
  }
}

// A day: whoever waits longer means `hang`.
constexpr double kMaxSlowSeconds = 86'400;

// One spelling of each size, so that equal stages have equal fingerprints.
void NormalizeBytes(std::string& size, const std::string& path, SpecProblems& problems) {
  const absl::StatusOr<uint64_t> bytes = ParseBytes(size);
  if (!bytes.ok()) {
    problems.Add(path, bytes.status().message());
  } else if (*bytes == 0) {
    problems.Add(path, "must be at least 1B");
  } else {
    size = absl::StrCat(*bytes, "B");
  }
}

void CheckTrue(bool value, const std::string& path, SpecProblems& problems) {
  if (!value) problems.Add(path, "can be true only; leave the stage out where it should not act");
}

void NormalizeFault(v1::Fault& stage, const std::string& path, SpecProblems& problems) {
  switch (stage.fault_case()) {
    case v1::Fault::kLeak:
      NormalizeBytes(*stage.mutable_leak(), path + ".leak", problems);
      break;
    case v1::Fault::kLeakMmap:
      NormalizeBytes(*stage.mutable_leak_mmap(), path + ".leak_mmap", problems);
      break;
    case v1::Fault::kTouch:
      NormalizeBytes(*stage.mutable_touch(), path + ".touch", problems);
      break;
    case v1::Fault::kBurst:
      NormalizeBytes(*stage.mutable_burst(), path + ".burst", problems);
      break;
    case v1::Fault::kCrash:
      CheckTrue(stage.crash(), path + ".crash", problems);
      break;
    case v1::Fault::kHang:
      CheckTrue(stage.hang(), path + ".hang", problems);
      break;
    case v1::Fault::kSlow:
      if (!(stage.slow() > 0 && stage.slow() <= kMaxSlowSeconds)) {
        problems.Add(
            path + ".slow",
            absl::StrCat("must be a number of seconds above 0 and at most ", kMaxSlowSeconds));
      }
      break;
    case v1::Fault::FAULT_NOT_SET:
      problems.Add(path, "names no fault: write one, such as {leak: 1MiB}");
  }
  if (stage.every() == 0) stage.set_every(1);
}

// Every stage that reads a feature has a field `input`; its default is the same place that
// StageInput looks at.
template <typename Typed>
void NormalizeWithInput(v1::Stage& whole, Typed& stage, const std::string& path,
                        SpecProblems& problems) {
  if (stage.input().empty()) stage.set_input(StageInput(whole));
  NormalizeStageOf(stage, absl::StrCat(path, ".", StageName(whole)), problems);
}

}  // namespace

void NormalizeStage(v1::Stage& stage, const std::string& path, SpecProblems& problems) {
  switch (stage.stage_case()) {
    case v1::Stage::kDecodeImage:
      return NormalizeWithInput(stage, *stage.mutable_decode_image(), path, problems);
    case v1::Stage::kResize:
      return NormalizeWithInput(stage, *stage.mutable_resize(), path, problems);
    case v1::Stage::kCenterCrop:
      return NormalizeWithInput(stage, *stage.mutable_center_crop(), path, problems);
    case v1::Stage::kRandomResizedCrop:
      return NormalizeWithInput(stage, *stage.mutable_random_resized_crop(), path, problems);
    case v1::Stage::kRandomHorizontalFlip:
      return NormalizeWithInput(stage, *stage.mutable_random_horizontal_flip(), path, problems);
    case v1::Stage::kNormalize:
      return NormalizeWithInput(stage, *stage.mutable_normalize(), path, problems);
    case v1::Stage::kCast:
      return NormalizeWithInput(stage, *stage.mutable_cast(), path, problems);
    case v1::Stage::kLayout:
      return NormalizeWithInput(stage, *stage.mutable_layout(), path, problems);
    case v1::Stage::kOneHot:
      return NormalizeWithInput(stage, *stage.mutable_one_hot(), path, problems);
    case v1::Stage::kFault:
      return NormalizeFault(*stage.mutable_fault(), path + ".fault", problems);
    case v1::Stage::STAGE_NOT_SET:
      problems.Add(path, "is empty: name a stage, such as decode_image: {}");
  }
}

}  // namespace bulkhead

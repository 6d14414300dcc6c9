#include "server/stages/numbers/run.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "server/base/cast.h"
#include "server/base/element_type.h"
#include "server/image/one_hot.h"
#include "server/stages/running/families.h"

namespace bulkhead {
namespace {

float NumberOr(const google::protobuf::RepeatedField<float>& numbers, int c, float otherwise) {
  if (numbers.empty()) return otherwise;
  return numbers[numbers.size() == 1 ? 0 : c];
}

Normalizer MakeNormalizer(const v1::Normalize& spec) {
  const int channels =
      std::max({1, spec.mean_size(), spec.std_size(), spec.divide_size(), spec.subtract_size()});
  const bool divides = spec.divide_size() > 0 || spec.subtract_size() > 0;
  std::vector<Normalizer::Channel> constants;
  for (int c = 0; c < channels; ++c) {
    constants.push_back(divides ? Normalizer::Channel{NumberOr(spec.divide(), c, 1.0f),
                                                      NumberOr(spec.subtract(), c, 0.0f)}
                                : Normalizer::Channel{NumberOr(spec.mean(), c, 0.0f),
                                                      NumberOr(spec.std(), c, 1.0f)});
  }
  return Normalizer(divides ? Normalizer::Formula::kDivideSubtract : Normalizer::Formula::kMeanStd,
                    std::move(constants));
}

// Elements of `element_bytes` each from [height, width, channels] to [channels, height, width], or
// back.
void Transpose(const std::byte* in, size_t plane, size_t channels, size_t element_bytes,
               bool to_channels_first, std::byte* out) {
  for (size_t c = 0; c < channels; ++c) {
    for (size_t i = 0; i < plane; ++i) {
      const size_t last = (i * channels + c) * element_bytes;
      const size_t first = (c * plane + i) * element_bytes;
      std::memcpy(out + (to_channels_first ? first : last), in + (to_channels_first ? last : first),
                  element_bytes);
    }
  }
}

// A stage that the trainer's client does: `normalize` with `at: trainer`, and what follows it.
class TrainersStage : public ValueStage {
 public:
  using ValueStage::ValueStage;
  absl::Status Run(Value&, const StageContext&) const override { return absl::OkStatus(); }
  Effect effect() const override { return Effect::kInPlace; }
  bool Changes(size_t) const override { return false; }
};

template <typename Stage, auto kOptions>
std::unique_ptr<SampleStage> MakeUnlessTrainers(const StageSite& site) {
  if (site.Output().normalization.has_value()) return std::make_unique<TrainersStage>(site.place);
  return Make<Stage, kOptions>(site);
}

bool IsPixels(const FeatureSignature& feature) {
  return feature.kind == FeatureSignature::Kind::kImage && feature.dtype == v1::DTYPE_UINT8 &&
         !feature.channels_first;
}

// `cast`. A value that already has the type is left where it is.
class CastStage : public ValueStage {
 public:
  CastStage(StagePlace place, const v1::Cast& spec)
      : ValueStage(std::move(place)), dtype_(spec.dtype()) {}
  absl::Status Run(Value& value, const StageContext& context) const override {
    if (value.dtype == dtype_) return absl::OkStatus();
    const size_t count = value.element_count();
    const size_t element_bytes = ElementBytes(dtype_);
    const size_t size_bytes = count * element_bytes;
    std::byte* result = context.Result(size_bytes);
    if (value.form == Value::Form::kPixels) {
      const size_t row_elements = value.pixels.row_bytes();
      for (int y = 0; y < value.pixels.height; ++y) {
        CastElements(v1::DTYPE_UINT8, value.pixels.row(y), dtype_,
                     result + y * row_elements * element_bytes, row_elements);
      }
    } else {
      CastElements(value.dtype, value.data, dtype_, result, count);
    }
    value.SetElements(dtype_, result, size_bytes);
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kWrites; }

 private:
  v1::DType dtype_;
};

// `layout`. An image that already has the layout is left where it is.
class LayoutStage : public ValueStage {
 public:
  LayoutStage(StagePlace place, const v1::Layout& spec)
      : ValueStage(std::move(place)), channels_first_(spec.to() == v1::IMAGE_LAYOUT_NCHW) {}
  absl::Status Run(Value& value, const StageContext& context) const override {
    if (value.channels_first == channels_first_) return absl::OkStatus();
    const size_t element_bytes = ElementBytes(value.dtype);
    const size_t size_bytes = value.element_count() * element_bytes;
    std::byte* result = context.Result(size_bytes);
    if (value.form == Value::Form::kPixels) {
      CopyChannelsFirst(value.pixels, reinterpret_cast<uint8_t*>(result));
    } else {
      const size_t plane = static_cast<size_t>(value.image_size.height) * value.image_size.width;
      const size_t images = static_cast<size_t>(std::max(1, value.stacked));
      for (size_t i = 0; i < images; ++i) {
        const size_t begin = size_bytes / images * i;
        Transpose(value.data + begin, plane, value.channels, element_bytes, channels_first_,
                  result + begin);
      }
    }
    value.channels_first = channels_first_;
    value.SetElements(value.dtype, result, size_bytes);
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kWrites; }

  bool channels_first() const { return channels_first_; }

 private:
  bool channels_first_;
};

// `one_hot`.
class OneHotStage : public ValueStage {
 public:
  OneHotStage(StagePlace place, const v1::OneHot& spec)
      : ValueStage(std::move(place)), classes_(spec.classes()) {}
  absl::Status Run(Value& value, const StageContext& context) const override {
    int64_t label = 0;
    CastElements(value.dtype, value.data, v1::DTYPE_INT64, &label, 1);
    const size_t size_bytes = size_t{classes_} * sizeof(float);
    std::byte* result = context.Result(size_bytes);
    BULKHEAD_RETURN_IF_ERROR(
        place().Name(OneHotEncode(label, classes_, reinterpret_cast<float*>(result))));
    value.SetElements(v1::DTYPE_FLOAT32, result, size_bytes);
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kWrites; }

 private:
  uint32_t classes_;
};

}  // namespace

NormalizeStage::NormalizeStage(const StageSite& site, const v1::Normalize& spec)
    : ValueStage(site.place),
      normalizer_(MakeNormalizer(spec)),
      takes_pixels_(IsPixels(site.Input())) {}

bool NormalizeStage::TakeBehind(std::unique_ptr<SampleStage>& next, bool fuse) {
  if (!fuse || !takes_pixels_ || to_channels_first_) return false;
  const auto* const layout = dynamic_cast<const LayoutStage*>(next.get());
  if (layout == nullptr || !layout->channels_first()) return false;
  to_channels_first_ = true;
  next.reset();
  return true;
}

absl::Status NormalizeStage::Run(Value& value, const StageContext& context) const {
  const size_t count = value.element_count();
  const size_t size_bytes = count * sizeof(float);
  std::byte* result = context.Result(size_bytes);
  auto* floats = reinterpret_cast<float*>(result);
  if (value.form == Value::Form::kPixels) {
    normalizer_.ApplyToImage(value.pixels, to_channels_first_, floats);
    value.channels_first = to_channels_first_;
  } else {
    CastElements(value.dtype, value.data, v1::DTYPE_FLOAT32, floats, count);
    const size_t images = static_cast<size_t>(std::max(1, value.stacked));
    const size_t inner =
        value.channels_first && value.channels > 0 ? count / images / value.channels : 1;
    normalizer_.ApplyInPlace(floats, count, inner);
  }
  value.SetElements(v1::DTYPE_FLOAT32, result, size_bytes);
  return absl::OkStatus();
}

std::vector<NumberedMaker> NumberStages() {
  using Stage = v1::Stage;
  return {
      {Stage::kNormalize, MakeUnlessTrainers<NormalizeStage, &Stage::normalize>},
      {Stage::kCast, MakeUnlessTrainers<CastStage, &Stage::cast>},
      {Stage::kLayout, MakeUnlessTrainers<LayoutStage, &Stage::layout>},
      {Stage::kOneHot, Make<OneHotStage, &Stage::one_hot>},
  };
}

}  // namespace bulkhead

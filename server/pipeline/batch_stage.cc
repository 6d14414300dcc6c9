#include "server/pipeline/batch_stage.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/pipeline/mix_stage.h"
#include "server/pipeline/multi_scale_stage.h"
#include "server/pipeline/pack_rows_stage.h"
#include "server/pipeline/python_batch_stage.h"
#include "server/spec/batch_layout.h"
#include "server/spec/batch_stages.h"
#include "server/spec/packing_stages.h"

namespace bulkhead {
namespace {

// Makes the stages of a spec, whose names were checked with its signature.
class Maker {
 public:
  Maker(const v1::PipelineSpec& spec, const PipelineSignature& signature)
      : spec_(spec),
        schema_(signature.schema),
        features_(signature.sources[0].FeaturesBefore(signature.sources[0].features_after.size())) {
  }

  std::unique_ptr<BatchStage> Make(int index) const {
    const v1::BatchStage& stage = spec_.batch_stages(index);
    StagePlace place(BatchStagePath(index), BatchStageName(stage));
    switch (stage.stage_case()) {
      case v1::BatchStage::kMixup:
        return MakeMix(stage.mixup(), std::move(place),
                       {.mixup_alpha = stage.mixup().alpha(),
                        .cutmix_probability = 0,
                        .probability = stage.mixup().probability()});
      case v1::BatchStage::kCutmix:
        return MakeMix(stage.cutmix(), std::move(place),
                       {.cutmix_alpha = stage.cutmix().alpha(),
                        .cutmix_probability = 1,
                        .probability = stage.cutmix().probability()});
      case v1::BatchStage::kMixupOrCutmix: {
        const v1::MixupOrCutmix& either = stage.mixup_or_cutmix();
        return MakeMix(either, std::move(place),
                       {.mixup_alpha = either.mixup_alpha(),
                        .cutmix_alpha = either.cutmix_alpha(),
                        .cutmix_probability = either.switch_probability(),
                        .probability = either.probability()});
      }
      case v1::BatchStage::kPython:
        return MakePython(stage.python(), std::move(place));
      case v1::BatchStage::kPackRows:
        return MakePackRows(index, std::move(place));
      case v1::BatchStage::kMultiScale:
        return MakeMultiScale(stage.multi_scale(), std::move(place));
      default:
        return nullptr;
    }
  }

 private:
  // The number of a tensor in the schema; that of tensors when there is none.
  size_t NumberOf(absl::string_view name) const {
    size_t number = 0;
    while (number < static_cast<size_t>(schema_.tensors_size()) &&
           schema_.tensors(static_cast<int>(number)).name() != name) {
      ++number;
    }
    return number;
  }

  MixedTensor TensorOf(const std::string& name) const {
    MixedTensor mixed;
    mixed.number = NumberOf(name);
    const v1::TensorSchema& tensor = schema_.tensors(static_cast<int>(mixed.number));
    mixed.dtype = tensor.dtype();
    mixed.row_bytes = tensor.sample_bytes();
    const auto feature = std::find_if(features_.begin(), features_.end(),
                                      [&](const auto& known) { return known.name == name; });
    if (feature == features_.end() || feature->kind != FeatureSignature::Kind::kImage) return mixed;
    mixed.channels_first = feature->channels_first;
    const size_t first = mixed.channels_first ? 1 : 0;  // of height and width
    mixed.size = {static_cast<int>(feature->shape[first]),
                  static_cast<int>(feature->shape[first + 1])};
    mixed.channels = static_cast<size_t>(feature->shape[mixed.channels_first ? 0 : 2]);
    return mixed;
  }

  template <typename Mix>
  std::unique_ptr<BatchStage> MakeMix(const Mix& stage, StagePlace place,
                                      const MixStage::Options& options) const {
    return std::make_unique<MixStage>(std::move(place), options, TensorOf(stage.input()),
                                      TensorOf(stage.label()));
  }

  std::unique_ptr<BatchStage> MakePython(const v1::Python& stage, StagePlace place) const {
    const auto tensor = [&](const std::string& name) {
      const size_t number = NumberOf(name);
      return PythonBatchStage::BatchTensor{number, schema_.tensors(static_cast<int>(number))};
    };
    std::vector<PythonBatchStage::BatchTensor> inputs;
    for (const std::string& name : stage.inputs()) inputs.push_back(tensor(name));
    std::vector<PythonBatchStage::BatchTensor> outputs;
    for (const v1::StageOutput& output : stage.outputs()) outputs.push_back(tensor(output.name()));
    return std::make_unique<PythonBatchStage>(std::move(place), stage, std::move(inputs),
                                              std::move(outputs));
  }

  std::unique_ptr<BatchStage> MakePackRows(int index, StagePlace place) const {
    std::vector<PackRowsStage::Packed> packed;
    for (const std::string& name : RowsPackedAt(spec_, index, features_)) {
      const size_t number = NumberOf(name);
      if (number == static_cast<size_t>(schema_.tensors_size())) continue;  // no output
      const v1::TensorSchema& tensor = schema_.tensors(static_cast<int>(number));
      const auto bound = static_cast<uint64_t>(tensor.shape(0));
      packed.push_back({name, number, NumberOf(CountName(name)), bound,
                        bound == 0 ? 0 : tensor.sample_bytes() / bound});
    }
    return std::make_unique<PackRowsStage>(std::move(place), std::move(packed));
  }

  std::unique_ptr<BatchStage> MakeMultiScale(const v1::MultiScale& stage, StagePlace place) const {
    MultiScaleStage::Scaled scaled;
    scaled.images.push_back(ScaledImageOf(stage.input(), true));
    for (const FeatureSignature* const along : ScaledAlong(stage, features_)) {
      const size_t number = NumberOf(along->name);
      if (number == static_cast<size_t>(schema_.tensors_size())) continue;  // no output
      if (along->annotation->kind == Annotation::Kind::kMask) {
        scaled.images.push_back(ScaledImageOf(along->name, false));
      } else {
        const uint64_t bytes = schema_.tensors(static_cast<int>(number)).sample_bytes();
        scaled.coordinates.push_back({number, bytes, *along->annotation});
      }
    }
    return std::make_unique<MultiScaleStage>(
        std::move(place), std::vector<uint32_t>(stage.sizes().begin(), stage.sizes().end()),
        std::move(scaled));
  }

  ScaledImage ScaledImageOf(const std::string& name, bool linear) const {
    const MixedTensor image = TensorOf(name);
    return {image.number, NumberOf(SizeName(name)), image.dtype,          image.row_bytes,
            image.size,   image.channels,           image.channels_first, linear};
  }

  const v1::PipelineSpec& spec_;
  const v1::BatchSchema& schema_;
  const std::vector<FeatureSignature>& features_;
};

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<BatchStage>>> MakeBatchStages(
    const v1::PipelineSpec& spec, const PipelineSignature& signature) {
  const Maker maker(spec, signature);
  std::vector<std::unique_ptr<BatchStage>> stages;
  for (int i = 0; i < spec.batch_stages_size(); ++i) {
    stages.push_back(maker.Make(i));
    if (stages.back() == nullptr) {
      return MakeError(absl::StatusCode::kInternal, reason::kInternal,
                       absl::StrCat(BatchStagePath(i), " is unknown; please report this"));
    }
  }
  return stages;
}

}  // namespace bulkhead

#include "server/pipeline/batch_stage.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/pipeline/mix_stage.h"
#include "server/pipeline/python_batch_stage.h"
#include "server/spec/batch_stages.h"

namespace bulkhead {
namespace {

// Makes the stages of a spec, whose names were checked with its signature.
class Maker {
 public:
  explicit Maker(const PipelineSignature& signature)
      : schema_(signature.schema),
        features_(signature.sources[0].FeaturesBefore(signature.sources[0].features_after.size())) {
  }

  std::unique_ptr<BatchStage> Make(const v1::BatchStage& stage, StagePlace place) const {
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

  const v1::BatchSchema& schema_;
  const std::vector<FeatureSignature>& features_;
};

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<BatchStage>>> MakeBatchStages(
    const v1::PipelineSpec& spec, const PipelineSignature& signature) {
  const Maker maker(signature);
  std::vector<std::unique_ptr<BatchStage>> stages;
  for (int i = 0; i < spec.batch_stages_size(); ++i) {
    const v1::BatchStage& stage = spec.batch_stages(i);
    stages.push_back(maker.Make(stage, {BatchStagePath(i), BatchStageName(stage)}));
    if (stages.back() == nullptr) {
      return MakeError(absl::StatusCode::kInternal, reason::kInternal,
                       absl::StrCat(BatchStagePath(i), " is unknown; please report this"));
    }
  }
  return stages;
}

}  // namespace bulkhead

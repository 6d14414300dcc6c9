#include "server/pipeline/stage_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"
#include "server/pipeline/decode_stage.h"
#include "server/pipeline/fault_stage.h"
#include "server/pipeline/geometry_stages.h"
#include "server/pipeline/number_stages.h"
#include "server/spec/stage_signature.h"

namespace bulkhead {
namespace {

constexpr size_t kNotFound = static_cast<size_t>(-1);

size_t FindFeature(const std::vector<FeatureSignature>& features, absl::string_view name) {
  for (size_t i = 0; i < features.size(); ++i) {
    if (features[i].name == name) return i;
  }
  return kNotFound;
}

absl::Status Disagree(absl::string_view what) {
  return MakeError(absl::StatusCode::kInternal, reason::kInternal,
                   absl::StrCat("the signature of this pipeline does not match its stages: ", what,
                                "; please report this"));
}

// The crop that a stage begins with; null when it begins with none.
std::unique_ptr<CropStage> MakeCrop(const v1::Stage& stage, StagePlace place) {
  if (stage.has_center_crop()) {
    return std::make_unique<CenterCropStage>(std::move(place), stage.center_crop());
  }
  if (stage.has_random_resized_crop()) {
    return std::make_unique<RandomResizedCropStage>(std::move(place), stage.random_resized_crop());
  }
  return nullptr;
}

// A stage that stands by itself; null for a stage that is not known.
std::unique_ptr<SampleStage> MakeStage(const v1::Stage& stage, StagePlace place) {
  switch (stage.stage_case()) {
    case v1::Stage::kResize:
      return std::make_unique<ResizeStage>(std::move(place), stage.resize());
    case v1::Stage::kCenterCrop:
    case v1::Stage::kRandomResizedCrop:
      return MakeCrop(stage, std::move(place));
    case v1::Stage::kRandomHorizontalFlip:
      return std::make_unique<RandomFlipStage>(std::move(place), stage.random_horizontal_flip());
    case v1::Stage::kNormalize:
      return std::make_unique<NormalizeStage>(std::move(place), stage.normalize(), false);
    case v1::Stage::kCast:
      return std::make_unique<CastStage>(std::move(place), stage.cast());
    case v1::Stage::kLayout:
      return std::make_unique<LayoutStage>(std::move(place), stage.layout());
    case v1::Stage::kOneHot:
      return std::make_unique<OneHotStage>(std::move(place), stage.one_hot());
    case v1::Stage::kFault:
      return std::make_unique<FaultStage>(std::move(place), stage.fault());
    case v1::Stage::kDecodeImage:
    case v1::Stage::STAGE_NOT_SET:
      break;
  }
  return nullptr;
}

bool IsPixels(const FeatureSignature& feature) {
  return feature.kind == FeatureSignature::Kind::kImage && feature.dtype == v1::DTYPE_UINT8 &&
         !feature.channels_first;
}

// Makes the stages of a chain one by one, looking one stage ahead. Fault stages are not seen by
// their neighbours: two that become one do so across them, and they run behind.
class Planner {
 public:
  Planner(const SourceChain& chain, const SourceSignature& signature, const v1::BatchSchema& schema,
          bool fuse)
      : chain_(chain), signature_(signature), schema_(schema), fuse_(fuse) {}

  absl::StatusOr<StagePlan> Run() {
    plan_.feature_count = signature_.source_features.size();
    for (size_t i = 0; i < chain_.steps.size();) {
      size_t end = i + 1;
      if (!StageAt(i).has_fault()) {
        BULKHEAD_ASSIGN_OR_RETURN(end, PlanStage(i));
      }
      PlanFaults(i, end);
      i = end;
    }
    BULKHEAD_RETURN_IF_ERROR(PlanOutputs());
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      if (!plan_.outputs[i].is_count) ChooseTarget(plan_.outputs[i].feature, static_cast<int>(i));
    }
    return std::move(plan_);
  }

 private:
  const v1::Stage& StageAt(size_t i) const { return *chain_.steps[i].stage; }
  StagePlace Place(size_t i) const { return {chain_.steps[i].path, StageName(StageAt(i))}; }

  void PlanFaults(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (!StageAt(i).has_fault()) continue;
      // It leaves its value alone, whichever that is.
      plan_.stages.push_back({MakeStage(StageAt(i), Place(i)), 0, -1});
    }
  }

  // The number of the stage behind stage i, faults left out.
  size_t NextStage(size_t i) const {
    do {
      ++i;
    } while (i < chain_.steps.size() && StageAt(i).has_fault());
    return i;
  }

  // Returns the number of the first written stage behind those that the planned one stands for.
  absl::StatusOr<size_t> PlanStage(size_t i) {
    const v1::Stage& stage = StageAt(i);
    const std::vector<FeatureSignature>& features = signature_.FeaturesBefore(i);
    const size_t feature = FindFeature(features, StageInput(stage));
    if (feature == kNotFound) return Disagree(absl::StrCat(Place(i).Label(), " has no input"));
    const size_t next_step = NextStage(i);
    // The stage behind this one when it works on the same feature.
    const v1::Stage* next = nullptr;
    if (next_step < chain_.steps.size() && StageInput(StageAt(next_step)) == StageInput(stage)) {
      next = &StageAt(next_step);
    }
    std::unique_ptr<SampleStage> made;
    size_t end = i + 1;
    if (stage.has_decode_image()) {
      // Joined even when nothing is fused: the crop decides which damage counts.
      std::unique_ptr<CropStage> crop =
          next == nullptr ? nullptr : MakeCrop(*next, Place(next_step));
      if (crop != nullptr) end = next_step + 1;
      made = std::make_unique<DecodeStage>(Place(i), stage.decode_image(), std::move(crop), fuse_);
    } else if (fuse_ && stage.has_normalize() && next != nullptr && next->has_layout() &&
               next->layout().to() == v1::IMAGE_LAYOUT_NCHW && IsPixels(features[feature])) {
      made = std::make_unique<NormalizeStage>(Place(i), stage.normalize(), true);
      end = next_step + 1;
    } else {
      made = MakeStage(stage, Place(i));
    }
    if (made == nullptr) return Disagree(absl::StrCat(chain_.steps[i].path, " is unknown"));
    plan_.stages.push_back({std::move(made), feature, -1});
    return end;
  }

  absl::Status PlanOutputs() {
    const std::vector<FeatureSignature>& features = signature_.FeaturesBefore(chain_.steps.size());
    for (const v1::TensorSchema& tensor : schema_.tensors()) {
      PlannedOutput output{tensor, FindFeature(features, tensor.name()), false};
      if (output.feature == kNotFound) {
        absl::string_view name = tensor.name();
        output.is_count = absl::ConsumeSuffix(&name, "_count");
        output.feature = FindFeature(features, name);
        if (!output.is_count || output.feature == kNotFound) {
          return Disagree(absl::StrCat("output `", tensor.name(), "` has no feature"));
        }
      }
      plan_.outputs.push_back(std::move(output));
    }
    return absl::OkStatus();
  }

  // Lets the last stage that writes `feature` write into the batch, if nothing behind it moves the
  // value again.
  void ChooseTarget(size_t feature, int output) {
    for (auto stage = plan_.stages.rbegin(); stage != plan_.stages.rend(); ++stage) {
      if (stage->feature != feature) continue;
      const SampleStage::Effect effect = stage->stage->effect();
      if (effect == SampleStage::Effect::kInPlace) continue;
      if (effect == SampleStage::Effect::kWrites) stage->target_output = output;
      return;
    }
  }

  const SourceChain& chain_;
  const SourceSignature& signature_;
  const v1::BatchSchema& schema_;
  bool fuse_;
  StagePlan plan_;
};

}  // namespace

absl::StatusOr<StagePlan> PlanStages(const SourceChain& chain, const SourceSignature& signature,
                                     const v1::BatchSchema& schema, bool fuse) {
  return Planner(chain, signature, schema, fuse).Run();
}

}  // namespace bulkhead

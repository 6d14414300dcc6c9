#include "server/spec/batch_stages.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/spec/nearest_name.h"
#include "server/spec/stages/stage_checks.h"
#include "server/spec/stages/user_kinds.h"

namespace bulkhead {
namespace {

using Kind = FeatureSignature::Kind;

constexpr double kMaxAlpha = 1000;

// "batch_stages[1].mixup".
std::string FullPath(const v1::PipelineSpec& spec, int index) {
  return absl::StrCat(BatchStagePath(index), ".", BatchStageName(spec.batch_stages(index)));
}

void CheckAlpha(double alpha, const std::string& path, SpecProblems& problems) {
  if (alpha >= 0.001 && alpha <= kMaxAlpha) return;
  problems.Add(path, absl::StrCat("is ", alpha, "; it must lie between 0.001 and ", kMaxAlpha));
}

template <typename Mix>
void NormalizeNames(Mix& stage) {
  if (stage.input().empty()) stage.set_input("image");
  if (stage.label().empty()) stage.set_label("label");
}

template <typename Mix>
void NormalizeMix(Mix& stage, const std::string& path, SpecProblems& problems) {
  NormalizeNames(stage);
  if (!stage.has_alpha()) stage.set_alpha(1);
  CheckAlpha(stage.alpha(), path + ".alpha", problems);
  NormalizeProbability(stage, 1, path, problems);
}

void NormalizeEither(v1::MixupOrCutmix& stage, const std::string& path, SpecProblems& problems) {
  NormalizeNames(stage);
  if (!stage.has_mixup_alpha()) stage.set_mixup_alpha(1);
  if (!stage.has_cutmix_alpha()) stage.set_cutmix_alpha(1);
  CheckAlpha(stage.mixup_alpha(), path + ".mixup_alpha", problems);
  CheckAlpha(stage.cutmix_alpha(), path + ".cutmix_alpha", problems);
  if (!stage.has_switch_probability()) stage.set_switch_probability(0.5);
  if (!(stage.switch_probability() >= 0 && stage.switch_probability() <= 1)) {
    problems.Add(path + ".switch_probability", "must lie between 0 and 1");
  }
  NormalizeProbability(stage, 1, path, problems);
}

// Rows of a batch lie in fields of fixed width: an output has one shape.
void NormalizeFunctionOfBatch(v1::Python& stage, const std::string& path, SpecProblems& problems) {
  NormalizePython(stage, path, problems);
  for (int i = 0; i < stage.outputs_size(); ++i) {
    const v1::StageOutput& output = stage.outputs(i);
    const std::string place = absl::StrCat(path, ".outputs[", i, "]");
    if (output.dtype() == v1::DTYPE_BYTES) {
      problems.Add(place + ".dtype", "cannot be bytes in batch_stages; give uint8 numbers");
    } else if (output.shape_size() > 0 && output.shape(0) == -1) {
      problems.Add(place + ".shape",
                   "is the shape of one row, without the batch's dimension, and cannot vary here");
    }
  }
}

const FeatureSignature* Find(const std::vector<FeatureSignature>& features,
                             absl::string_view name) {
  const auto found = std::find_if(features.begin(), features.end(),
                                  [&](const auto& feature) { return feature.name == name; });
  return found == features.end() ? nullptr : &*found;
}

const v1::TensorSchema* FindTensor(const v1::BatchSchema& schema, absl::string_view name) {
  const auto found = std::find_if(schema.tensors().begin(), schema.tensors().end(),
                                  [&](const auto& tensor) { return tensor.name() == name; });
  return found == schema.tensors().end() ? nullptr : &*found;
}

// "float32 [1000]": one row of an output.
std::string Describe(v1::DType dtype,
                     const google::protobuf::RepeatedField<google::protobuf::int64>& shape) {
  return absl::StrCat(DTypeName(dtype), " [", absl::StrJoin(shape, ","), "]");
}

// One batch stage before the outputs that it finds.
class Checker {
 public:
  Checker(const v1::PipelineSpec& spec, const std::vector<FeatureSignature>& features,
          const v1::BatchSchema& schema)
      : features_(features), schema_(schema) {
    for (const v1::TensorSchema& tensor : schema.tensors()) {
      if (!IsBatchFeature(spec, features, tensor.name())) there_.insert(tensor.name());
    }
  }

  absl::Status Check(const v1::BatchStage& stage, const std::string& path) {
    switch (stage.stage_case()) {
      case v1::BatchStage::kMixup:
        return CheckMix(stage.mixup(), path, false);
      case v1::BatchStage::kCutmix:
        return CheckMix(stage.cutmix(), path, true);
      case v1::BatchStage::kMixupOrCutmix:
        return CheckMix(stage.mixup_or_cutmix(), path, true);
      case v1::BatchStage::kPython:
        return CheckFunction(stage.python(), path);
      default:
        return SpecError(path, "is empty: name a batch stage, such as mixup: {}");
    }
  }

 private:
  // The output `name`, which must be there when the stage's turn comes.
  absl::StatusOr<const v1::TensorSchema*> Need(const std::string& name,
                                               const std::string& path) const {
    if (there_.count(name) > 0) return FindTensor(schema_, name);
    if (Find(features_, name) != nullptr) {
      return SpecError(path, absl::StrCat("`", name,
                                          "` is not among the outputs, on which batch stages work; "
                                          "add it to outputs: [...]"));
    }
    return SpecError(path, UnknownName("output", name, {there_.begin(), there_.end()}));
  }

  template <typename Mix>
  absl::Status CheckMix(const Mix& stage, const std::string& path, bool cuts) const {
    BULKHEAD_ASSIGN_OR_RETURN(const v1::TensorSchema* const image,
                              Need(stage.input(), path + ".input"));
    const FeatureSignature* const feature = Find(features_, stage.input());
    const bool is_image = feature != nullptr && feature->kind == Kind::kImage;
    const bool numbers = image->dtype() == v1::DTYPE_UINT8 || image->dtype() == v1::DTYPE_FLOAT32;
    if (!numbers || (cuts && !is_image)) {
      return SpecError(
          path + ".input",
          absl::StrCat("takes ", cuts ? "images" : "numbers", " of uint8 or float32, but `",
                       image->name(), "` is ", Describe(image->dtype(), image->shape()),
                       " in the batch; ",
                       numbers ? "name an image" : "normalize or cast it to float32 first"));
    }
    BULKHEAD_ASSIGN_OR_RETURN(const v1::TensorSchema* const label,
                              Need(stage.label(), path + ".label"));
    if (label->dtype() != v1::DTYPE_FLOAT32 || label->shape().empty()) {
      return SpecError(
          path + ".label",
          absl::StrCat("takes labels of float32, one number a class, because two classes are "
                       "mixed, but `",
                       label->name(), "` is ", Describe(label->dtype(), label->shape()),
                       " in the batch; put one_hot: {input: ", label->name(),
                       ", classes: …} into stages"));
    }
    if (label == image) return SpecError(path + ".label", "must be another output than the input");
    return absl::OkStatus();
  }

  absl::Status CheckFunction(const v1::Python& stage, const std::string& path) {
    for (const std::string& name : stage.inputs()) {
      BULKHEAD_RETURN_IF_ERROR(Need(name, path + ".inputs").status());
    }
    for (int i = 0; i < stage.outputs_size(); ++i) {
      const v1::StageOutput& output = stage.outputs(i);
      const std::string place = absl::StrCat(path, ".outputs[", i, "]");
      const v1::TensorSchema* const tensor = FindTensor(schema_, output.name());
      if (tensor == nullptr) {
        return SpecError(place + ".name",
                         absl::StrCat("`", output.name(),
                                      "` is not among the outputs; add it to outputs: [...]"));
      }
      if (tensor->dtype() != output.dtype() ||
          !std::equal(tensor->shape().begin(), tensor->shape().end(), output.shape().begin(),
                      output.shape().end())) {
        return SpecError(
            place, absl::StrCat("declares `", output.name(), "` as ",
                                Describe(output.dtype(), output.shape()), ", but it is ",
                                Describe(tensor->dtype(), tensor->shape()),
                                " in the batch, where it is replaced in place; give the result "
                                "another name"));
      }
      there_.insert(output.name());
    }
    return absl::OkStatus();
  }

  const std::vector<FeatureSignature>& features_;
  const v1::BatchSchema& schema_;
  std::set<std::string> there_;
};

}  // namespace

std::string BatchStageName(const v1::BatchStage& stage) {
  if (stage.stage_case() == v1::BatchStage::STAGE_NOT_SET) return "";
  return v1::BatchStage::descriptor()->FindFieldByNumber(stage.stage_case())->name();
}

bool IsRandomBatchStage(const v1::BatchStage& stage) {
  switch (stage.stage_case()) {
    case v1::BatchStage::kMixup:
      return stage.mixup().probability() > 0;
    case v1::BatchStage::kCutmix:
      return stage.cutmix().probability() > 0;
    case v1::BatchStage::kMixupOrCutmix:
      return stage.mixup_or_cutmix().probability() > 0;
    default:
      return stage.has_python();
  }
}

std::string BatchStagePath(int index) { return absl::StrCat("batch_stages[", index, "]"); }

void NormalizeBatchStages(v1::PipelineSpec& spec, SpecProblems& problems) {
  for (int i = 0; i < spec.batch_stages_size(); ++i) {
    v1::BatchStage& stage = *spec.mutable_batch_stages(i);
    const std::string path = FullPath(spec, i);
    switch (stage.stage_case()) {
      case v1::BatchStage::kMixup:
        NormalizeMix(*stage.mutable_mixup(), path, problems);
        break;
      case v1::BatchStage::kCutmix:
        NormalizeMix(*stage.mutable_cutmix(), path, problems);
        break;
      case v1::BatchStage::kMixupOrCutmix:
        NormalizeEither(*stage.mutable_mixup_or_cutmix(), path, problems);
        break;
      case v1::BatchStage::kPython:
        NormalizeFunctionOfBatch(*stage.mutable_python(), path, problems);
        break;
      default:
        problems.Add(BatchStagePath(i), "is empty: name a batch stage, such as mixup: {}");
    }
  }
}

void AddBatchFeatures(const v1::PipelineSpec& spec, std::vector<FeatureSignature>& features) {
  for (int i = 0; i < spec.batch_stages_size(); ++i) {
    for (const v1::StageOutput& output : spec.batch_stages(i).python().outputs()) {
      // The first one that gives it declares it.
      if (Find(features, output.name()) != nullptr) continue;
      FeatureSignature made = UserOutputSignature(output, FullPath(spec, i));
      const auto place = std::lower_bound(
          features.begin(), features.end(), made.name,
          [](const FeatureSignature& a, const std::string& name) { return a.name < name; });
      features.insert(place, std::move(made));
    }
  }
}

bool IsBatchFeature(const v1::PipelineSpec& spec, const std::vector<FeatureSignature>& features,
                    absl::string_view name) {
  if (Find(features, name) != nullptr) return false;
  for (const v1::BatchStage& stage : spec.batch_stages()) {
    for (const v1::StageOutput& output : stage.python().outputs()) {
      if (output.name() == name) return true;
    }
  }
  return false;
}

absl::Status CheckBatchStages(const v1::PipelineSpec& spec,
                              const std::vector<FeatureSignature>& features,
                              const v1::BatchSchema& schema) {
  Checker checker(spec, features, schema);
  for (int i = 0; i < spec.batch_stages_size(); ++i) {
    BULKHEAD_RETURN_IF_ERROR(checker.Check(spec.batch_stages(i), FullPath(spec, i)));
  }
  return absl::OkStatus();
}

std::string FirstPythonBatchStage(const v1::PipelineSpec& spec) {
  for (int i = 0; i < spec.batch_stages_size(); ++i) {
    if (spec.batch_stages(i).has_python()) return FullPath(spec, i);
  }
  return "";
}

}  // namespace bulkhead

#include "server/spec/batch_stages.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/spec/batch_layout.h"
#include "server/spec/nearest_name.h"
#include "server/spec/packing_stages.h"
#include "server/spec/stages/carry_annotations.h"
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
      : spec_(spec), features_(features), schema_(schema) {
    for (const v1::TensorSchema& tensor : schema.tensors()) {
      if (!IsBatchFeature(spec, features, tensor.name())) there_.insert(tensor.name());
    }
  }

  absl::Status Check(int index) {
    const v1::BatchStage& stage = spec_.batch_stages(index);
    const std::string path = FullPath(spec_, index);
    switch (stage.stage_case()) {
      case v1::BatchStage::kMixup:
        return CheckMix(stage.mixup(), path, false);
      case v1::BatchStage::kCutmix:
        return CheckMix(stage.cutmix(), path, true);
      case v1::BatchStage::kMixupOrCutmix:
        return CheckMix(stage.mixup_or_cutmix(), path, true);
      case v1::BatchStage::kPython:
        return CheckFunction(stage.python(), path);
      case v1::BatchStage::kPackRows:
        return CheckPackRows(index, path);
      case v1::BatchStage::kMultiScale:
        return CheckMultiScale(stage.multi_scale(), path);
      default:
        return SpecError(path, "is empty: name a batch stage, such as mixup: {}");
    }
  }

 private:
  // The output `name`, which must be there when the stage's turn comes.
  absl::StatusOr<const v1::TensorSchema*> Need(const std::string& name,
                                               const std::string& path) const {
    const auto packed = packed_at_.find(name);
    if (packed != packed_at_.end()) {
      return SpecError(
          path, absl::StrCat("`", name, "` was packed by ", packed->second, ", behind which its ",
                             "samples have no fixed place; put this stage before that one"));
    }
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
      if (packed_at_.count(output.name()) > 0) return Need(output.name(), place).status();
      there_.insert(output.name());
    }
    return absl::OkStatus();
  }

  absl::Status CheckPackRows(int index, const std::string& path) {
    const v1::PackRows& stage = spec_.batch_stages(index).pack_rows();
    bool packs = false;
    for (const std::string& name : RowsPackedAt(spec_, index, features_)) {
      // Without a list only what is delivered counts.
      if (stage.inputs().empty() && there_.count(name) == 0) continue;
      BULKHEAD_RETURN_IF_ERROR(Need(name, path + ".inputs").status());
      const FeatureSignature* const feature = Find(features_, name);
      if (feature == nullptr || !feature->variable) {
        const v1::TensorSchema& tensor = *FindTensor(schema_, name);
        return SpecError(
            path + ".inputs",
            absl::StrCat("`", name, "` is ", Describe(tensor.dtype(), tensor.shape()),
                         " in every sample: only outputs whose number of rows varies (shape: [-1, "
                         "…] and max_count) can be packed"));
      }
      packed_at_[name] = path;
      packs = true;
    }
    if (packs) return absl::OkStatus();
    return SpecError(path,
                     "finds no output whose number of rows varies (shape: [-1, …] and "
                     "max_count), of which every sample has its own; leave it out");
  }

  absl::Status CheckMultiScale(const v1::MultiScale& stage, const std::string& path) {
    BULKHEAD_ASSIGN_OR_RETURN(const v1::TensorSchema* const tensor,
                              Need(stage.input(), path + ".input"));
    const FeatureSignature* const image = Find(features_, stage.input());
    const bool numbers = tensor->dtype() == v1::DTYPE_UINT8 || tensor->dtype() == v1::DTYPE_FLOAT32;
    if (image == nullptr || image->kind != Kind::kImage || !numbers) {
      return SpecError(
          path + ".input",
          absl::StrCat("takes images of uint8 or float32, but `", tensor->name(), "` is ",
                       Describe(tensor->dtype(), tensor->shape()), " in the batch; name an image"));
    }
    if (image->annotation.has_value() && image->annotation->kind == Annotation::Kind::kMask) {
      return SpecError(path + ".input",
                       absl::StrCat("`", image->name, "` is a mask of `", image->annotation->image,
                                    "`, with which it is scaled: name that image"));
    }
    const int first = image->channels_first ? 1 : 0;
    const int64_t longer = std::max(tensor->shape(first), tensor->shape(first + 1));
    for (int i = 0; i < stage.sizes_size(); ++i) {
      if (stage.sizes(i) <= longer) continue;
      return SpecError(absl::StrCat(path, ".sizes[", i, "]"),
                       absl::StrCat("is ", stage.sizes(i), ", but the longer side of `",
                                    image->name, "` has ", longer,
                                    " pixels: a batch has room for no more; resize to the "
                                    "largest of these sizes in stages"));
    }
    for (const FeatureSignature* const along : ScaledAlong(stage, features_)) {
      if (there_.count(along->name) == 0) continue;
      if (!along->annotation->lost_at.empty()) {
        return SpecError(path,
                         absl::StrCat("scales `", image->name, "`, but ", DescribeLoss(*along)));
      }
      BULKHEAD_RETURN_IF_ERROR(Need(along->name, path).status());
      if (along->annotation->kind == Annotation::Kind::kMask) NotePackedImage(along->name, path);
    }
    NotePackedImage(image->name, path);
    return absl::OkStatus();
  }

  void NotePackedImage(const std::string& name, const std::string& path) {
    packed_at_[name] = path;
    there_.insert(SizeName(name));
  }

  const v1::PipelineSpec& spec_;
  const std::vector<FeatureSignature>& features_;
  const v1::BatchSchema& schema_;
  std::set<std::string> there_;
  std::map<std::string, std::string> packed_at_;  // by output: the stage that packed it
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
    case v1::BatchStage::kMultiScale:
      return stage.multi_scale().sizes_size() > 1;
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
      case v1::BatchStage::kPackRows:
        NormalizePackRows(stage.pack_rows(), path, problems);
        break;
      case v1::BatchStage::kMultiScale:
        NormalizeMultiScale(*stage.mutable_multi_scale(), path, problems);
        break;
      default:
        problems.Add(BatchStagePath(i), "is empty: name a batch stage, such as mixup: {}");
    }
  }
}

void AddBatchFeatures(const v1::PipelineSpec& spec, std::vector<FeatureSignature>& features) {
  MarkPacked(spec, features);
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
    if (!stage.has_multi_scale()) continue;
    if (name == SizeName(stage.multi_scale().input())) return true;
    for (const FeatureSignature* const along : ScaledAlong(stage.multi_scale(), features)) {
      if (name == SizeName(along->name)) return true;
    }
  }
  return false;
}

absl::Status CheckBatchStages(const v1::PipelineSpec& spec,
                              const std::vector<FeatureSignature>& features,
                              const v1::BatchSchema& schema) {
  Checker checker(spec, features, schema);
  for (int i = 0; i < spec.batch_stages_size(); ++i) {
    BULKHEAD_RETURN_IF_ERROR(checker.Check(i));
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

#include "server/stages/packing/declare.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/stages/declaration/batch_kind.h"
#include "server/stages/declaration/carry_annotations.h"
#include "server/stages/declaration/common_options.h"

namespace bulkhead {
namespace {

void Mark(v1::Packing packing, const std::string& path, FeatureSignature& feature) {
  if (feature.packing != v1::PACKING_UNSPECIFIED) return;  // refused when the stages are checked
  feature.packing = packing;
  feature.packed_at = path;
}

class PackRowsKind : public BatchKind {
 public:
  PackRowsKind()
      : BatchKind(v1::PackRows::descriptor(),
                  {Option("inputs").Otherwise("all that are not packed yet")}, {}) {}

  bool IsRandom(const v1::BatchStage&) const override { return false; }

  void CheckRules(const v1::BatchStage& stage, const std::string& path,
                  SpecProblems& problems) const override {
    const auto& names = stage.pack_rows().inputs();
    std::set<std::string> seen;
    for (int i = 0; i < names.size(); ++i) {
      if (seen.insert(names[i]).second) continue;
      problems.Add(absl::StrCat(path, ".inputs[", i, "]"), "`", names[i], "` is listed twice");
    }
  }

  void MarkPacked(const v1::BatchStage& stage, const std::string& path,
                  std::vector<FeatureSignature>& features) const override {
    const std::vector<std::string> names = RowsPacked(stage.pack_rows(), features);
    for (FeatureSignature& feature : features) {
      const bool packed = std::count(names.begin(), names.end(), feature.name) > 0;
      if (feature.variable && packed) Mark(v1::PACKING_ROWS, path, feature);
    }
  }

  absl::Status Check(const v1::BatchStage& stage, const std::string& path,
                     BatchOutputs& outputs) const override {
    bool packs = false;
    for (const std::string& name : RowsPacked(stage.pack_rows(), outputs.features())) {
      // Without a list, all outputs that are not packed yet.
      const bool skipped = !outputs.IsThere(name) || outputs.IsPacked(name);
      if (stage.pack_rows().inputs().empty() && skipped) continue;
      BULKHEAD_RETURN_IF_ERROR(outputs.Need(name, path + ".inputs").status());
      const FeatureSignature* const feature = outputs.Feature(name);
      if (feature == nullptr || !feature->variable) {
        return SpecError(path + ".inputs", "`", name, "` is ", DescribeRow(*outputs.Tensor(name)),
                         " in every sample: only outputs whose number of rows varies (shape: [-1, "
                         "…] and max_count) can be packed");
      }
      outputs.Pack(name, path);
      packs = true;
    }
    if (packs) return absl::OkStatus();
    return SpecError(path,
                     "finds no output whose number of rows varies (shape: [-1, …] and max_count), "
                     "of which every sample has its own; leave it out");
  }
};

class MultiScaleKind : public BatchKind {
 public:
  MultiScaleKind()
      : BatchKind(v1::MultiScale::descriptor(), {Option("input").DefaultName("image"), Sizes()},
                  {}) {}

  bool IsRandom(const v1::BatchStage& stage) const override {
    return stage.multi_scale().sizes_size() > 1;
  }

  void CheckRules(const v1::BatchStage& stage, const std::string& path,
                  SpecProblems& problems) const override {
    const auto& sizes = stage.multi_scale().sizes();
    for (int i = 0; i < sizes.size(); ++i) {
      if (sizes[i] >= 1 && sizes[i] <= kMaxExtent) continue;
      problems.Add(absl::StrCat(path, ".sizes[", i, "]"), "must lie between 1 and ", kMaxExtent);
    }
  }

  void MarkPacked(const v1::BatchStage& stage, const std::string& path,
                  std::vector<FeatureSignature>& features) const override {
    std::set<std::string> packed = {stage.multi_scale().input()};
    for (const FeatureSignature* along : ScaledAlong(stage.multi_scale(), features)) {
      packed.insert(along->name);
    }
    for (FeatureSignature& feature : features) {
      const bool is_image = feature.kind == FeatureSignature::Kind::kImage;
      if (is_image && packed.count(feature.name) > 0) Mark(ExtentsPacking(feature), path, feature);
    }
  }

  std::vector<std::string> Makes(const v1::BatchStage& stage,
                                 const std::vector<FeatureSignature>& features) const override {
    std::vector<std::string> names = {SizeName(stage.multi_scale().input())};
    for (const FeatureSignature* const along : ScaledAlong(stage.multi_scale(), features)) {
      names.push_back(SizeName(along->name));
    }
    return names;
  }

  absl::Status Check(const v1::BatchStage& stage, const std::string& path,
                     BatchOutputs& outputs) const override {
    const v1::MultiScale& options = stage.multi_scale();
    BULKHEAD_ASSIGN_OR_RETURN(const v1::TensorSchema* const tensor,
                              outputs.Need(options.input(), path + ".input"));
    const FeatureSignature* const image = outputs.Feature(options.input());
    const bool numbers = tensor->dtype() == v1::DTYPE_UINT8 || tensor->dtype() == v1::DTYPE_FLOAT32;
    if (image == nullptr || image->kind != FeatureSignature::Kind::kImage || !numbers) {
      return SpecError(path + ".input", "takes images of uint8 or float32, but `", tensor->name(),
                       "` is ", DescribeRow(*tensor), " in the batch; name an image");
    }
    if (image->annotation.has_value() && image->annotation->kind == Annotation::Kind::kMask) {
      return SpecError(path + ".input", "`", image->name, "` is a mask of `",
                       image->annotation->image, "`, with which it is scaled: name that image");
    }
    const int first = image->channels_first ? 1 : 0;
    const int64_t longer = std::max(tensor->shape(first), tensor->shape(first + 1));
    for (int i = 0; i < options.sizes_size(); ++i) {
      if (options.sizes(i) <= longer) continue;
      return SpecError(
          absl::StrCat(path, ".sizes[", i, "]"), "is ", options.sizes(i),
          ", but the longer side of `", image->name, "` has ", longer,
          " pixels: a batch has room for no more; resize to the largest of these sizes in stages");
    }
    for (const FeatureSignature* const along : ScaledAlong(options, outputs.features())) {
      if (!outputs.IsThere(along->name)) continue;
      if (!along->annotation->lost_at.empty()) {
        return SpecError(path, "scales `", image->name, "`, but ", DescribeLoss(*along));
      }
      BULKHEAD_RETURN_IF_ERROR(outputs.Need(along->name, path).status());
      if (along->annotation->kind == Annotation::Kind::kMask) NoteImage(along->name, path, outputs);
    }
    NoteImage(image->name, path, outputs);
    return absl::OkStatus();
  }

 private:
  static Option Sizes() {
    const std::string sentence =
        "is required: lengths of the longer side in pixels, 1 to 256 of them, such as [480, 512, "
        "544]";
    return Option("sizes").Needs(sentence).Count(1, 256, sentence);
  }

  static void NoteImage(const std::string& name, const std::string& path, BatchOutputs& outputs) {
    outputs.Pack(name, path);
    outputs.Make(SizeName(name));
  }
};

}  // namespace

std::vector<std::string> RowsPacked(const v1::PackRows& stage,
                                    const std::vector<FeatureSignature>& features) {
  std::vector<std::string> names(stage.inputs().begin(), stage.inputs().end());
  if (!names.empty()) return names;
  for (const FeatureSignature& feature : features) {
    const bool packed = feature.packing != v1::PACKING_UNSPECIFIED;
    if (feature.variable && !packed) names.push_back(feature.name);
  }
  return names;
}

std::vector<const FeatureSignature*> ScaledAlong(const v1::MultiScale& stage,
                                                 const std::vector<FeatureSignature>& features) {
  std::vector<const FeatureSignature*> found;
  for (const FeatureSignature& feature : features) {
    if (!feature.annotation.has_value() || feature.annotation->image != stage.input()) continue;
    if (!feature.annotation->relative) found.push_back(&feature);
  }
  return found;
}

v1::Packing ExtentsPacking(const FeatureSignature& image) {
  return image.channels_first ? v1::PACKING_EXTENTS_CHANNELS_FIRST : v1::PACKING_EXTENTS;
}

BatchKinds PackingKinds() {
  return Family<BatchKind>(std::make_unique<PackRowsKind>(), std::make_unique<MultiScaleKind>());
}

}  // namespace bulkhead

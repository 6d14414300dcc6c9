#include "server/spec/packing_stages.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "server/spec/batch_stages.h"
#include "server/spec/stages/stage_checks.h"

namespace bulkhead {
namespace {

constexpr int kMaxSizes = 256;

std::set<std::string> Named(const v1::PackRows& stage) {
  return {stage.inputs().begin(), stage.inputs().end()};
}

void Mark(v1::Packing packing, const std::string& path, FeatureSignature& feature) {
  if (feature.packing != v1::PACKING_UNSPECIFIED) return;  // refused when the stages are checked
  feature.packing = packing;
  feature.packed_at = path;
}

}  // namespace

void NormalizePackRows(const v1::PackRows& stage, const std::string& path, SpecProblems& problems) {
  std::set<std::string> seen;
  for (int i = 0; i < stage.inputs_size(); ++i) {
    if (seen.insert(stage.inputs(i)).second) continue;
    problems.Add(absl::StrCat(path, ".inputs[", i, "]"),
                 absl::StrCat("`", stage.inputs(i), "` stands there twice"));
  }
}

void NormalizeMultiScale(v1::MultiScale& stage, const std::string& path, SpecProblems& problems) {
  if (stage.input().empty()) stage.set_input("image");
  if (stage.sizes().empty() || stage.sizes_size() > kMaxSizes) {
    problems.Add(path + ".sizes", absl::StrCat("is required: lengths of the longer side in pixels, "
                                               "1 to ",
                                               kMaxSizes, " of them, such as [480, 512, 544]"));
  }
  for (int i = 0; i < stage.sizes_size(); ++i) {
    if (stage.sizes(i) >= 1 && stage.sizes(i) <= kMaxExtent) continue;
    problems.Add(absl::StrCat(path, ".sizes[", i, "]"),
                 absl::StrCat("must lie between 1 and ", kMaxExtent));
  }
}

std::vector<std::string> RowsPackedAt(const v1::PipelineSpec& spec, int index,
                                      const std::vector<FeatureSignature>& features) {
  const v1::PackRows& stage = spec.batch_stages(index).pack_rows();
  if (!stage.inputs().empty()) return {stage.inputs().begin(), stage.inputs().end()};
  std::set<std::string> packed;
  for (int i = 0; i < index; ++i) {
    if (!spec.batch_stages(i).has_pack_rows()) continue;
    const std::set<std::string> named = Named(spec.batch_stages(i).pack_rows());
    if (named.empty()) return {};
    packed.insert(named.begin(), named.end());
  }
  std::vector<std::string> names;
  for (const FeatureSignature& feature : features) {
    if (feature.variable && packed.count(feature.name) == 0) names.push_back(feature.name);
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

void MarkPacked(const v1::PipelineSpec& spec, std::vector<FeatureSignature>& features) {
  for (int i = 0; i < spec.batch_stages_size(); ++i) {
    const v1::BatchStage& stage = spec.batch_stages(i);
    const std::string path = absl::StrCat(BatchStagePath(i), ".", BatchStageName(stage));
    if (stage.has_pack_rows()) {
      const std::vector<std::string> names = RowsPackedAt(spec, i, features);
      const std::set<std::string> packed(names.begin(), names.end());
      for (FeatureSignature& feature : features) {
        if (feature.variable && packed.count(feature.name) > 0) {
          Mark(v1::PACKING_ROWS, path, feature);
        }
      }
    } else if (stage.has_multi_scale()) {
      std::set<std::string> packed = {stage.multi_scale().input()};
      for (const FeatureSignature* along : ScaledAlong(stage.multi_scale(), features)) {
        packed.insert(along->name);
      }
      for (FeatureSignature& feature : features) {
        const bool is_image = feature.kind == FeatureSignature::Kind::kImage;
        if (is_image && packed.count(feature.name) > 0) {
          Mark(ExtentsPacking(feature), path, feature);
        }
      }
    }
  }
}

}  // namespace bulkhead

#include "tools/preview/stage_specs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/spec/image_lists.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/signature.h"
#include "server/spec/source_chain.h"
#include "server/spec/stage_signature.h"
#include "tools/preview/preview_boxes.h"

namespace bulkhead::tools {
namespace {

// What is known of `image` at the end of `spec`; null when it is no image there.
const FeatureSignature* ImageAtEnd(const PipelineSignature& signature, const std::string& image) {
  const SourceSignature& source = signature.sources[0];
  for (const FeatureSignature& feature : source.FeaturesBefore(source.features_after.size())) {
    if (feature.name == image && feature.kind == FeatureSignature::Kind::kImage) return &feature;
  }
  return nullptr;
}

// The common stages up to the one numbered `last`, of which `image` alone is asked.
v1::PipelineSpec Cut(const v1::PipelineSpec& spec, int last, const std::string& image) {
  v1::PipelineSpec cut = spec;
  cut.mutable_stages()->DeleteSubrange(last + 1, cut.stages_size() - last - 1);
  cut.clear_batch_stages();
  cut.clear_outputs();
  cut.add_outputs(image);
  return cut;
}

// What `name` is behind stage `last`: of a list of images the first.
std::string ImageBehind(const v1::PipelineSpec& spec, int last, const std::string& name) {
  v1::PipelineSpec cut = Cut(spec, last, name);
  cut.clear_outputs();
  const std::vector<SourceChain> chains = SourceChains(cut);
  return chains[0].lists.count(name) > 0 ? ImageName(name, 0) : name;
}

bool IsValid(v1::PipelineSpec spec) { return Normalize(spec).ok() && InferSignature(spec).ok(); }

// Also asks for the feature `name`, if it is available and not asked for yet.
void AddOutput(const std::string& name, v1::PipelineSpec& spec) {
  const auto& outputs = spec.outputs();
  if (std::find(outputs.begin(), outputs.end(), name) != outputs.end()) return;
  v1::PipelineSpec more = spec;
  more.add_outputs(name);
  if (IsValid(more)) spec = std::move(more);
}

}  // namespace

std::vector<StageSpec> CutBehindStages(const v1::PipelineSpec& spec, const std::string& name,
                                       int side, const std::string& labels) {
  std::vector<StageSpec> specs;
  for (int i = 0; i < spec.stages_size(); ++i) {
    const std::string image = ImageBehind(spec, i, name);
    v1::PipelineSpec cut = Cut(spec, i, image);
    v1::PipelineSpec boxed = cut;
    v1::Letterbox& letterbox = *boxed.add_stages()->mutable_letterbox();
    letterbox.set_input(image);
    letterbox.add_size(static_cast<uint64_t>(side));
    // An image whose size is not known can be no output: it gets one.
    const bool sized = IsValid(cut);
    if (!sized && !IsValid(boxed)) continue;
    v1::PipelineSpec& shown = sized ? cut : boxed;
    if (!Normalize(shown).ok()) continue;
    const auto signature = InferSignature(shown);
    if (!signature.ok() || ImageAtEnd(*signature, image) == nullptr) continue;
    const SourceSignature& source = signature->sources[0];
    const size_t behind = source.features_after.size() - (sized ? 0 : 1);
    const std::vector<FeatureSignature>& features = source.FeaturesBefore(behind);
    const auto feature = std::ranges::find(features, image, &FeatureSignature::name);
    // A feature says which stage had it last.
    if (feature == features.end() || feature->path.rfind(absl::StrCat("stages[", i, "]"), 0) != 0) {
      continue;
    }
    // Declared boxes and their labels are drawn where they can be delivered.
    for (const LabelledBoxes& found : BoxFeatures(*signature, image, labels, false)) {
      AddOutput(found.boxes.name, shown);
      if (!found.labels.empty()) AddOutput(found.labels, shown);
    }
    specs.push_back({StageName(spec.stages(i)), std::move(shown), image, i, !sized});
  }
  return specs;
}

}  // namespace bulkhead::tools

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/image_lists.h"
#include "server/spec/signature.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

// One source of a spec and the stages for its samples. In a mixture each source has a chain: its
// own stages, then the common ones. `cache` stages change no sample, so they are not steps. A stage
// that works on a list of images (image_lists.h) is a step for each of them. Points into the spec,
// which must outlive it and not change.
struct SourceChain {
  struct Step {
    const v1::Stage* stage = nullptr;
    std::string path;  // "stages[2]", "source.mixture.sources[1].stages[0]"
    // The path that it would have without cache stages, which is the key of its random numbers.
    std::string key_path;
    // The image of a list that it works on, "views/2"; empty: it is the only step of its stage.
    std::string image;
    // The stage, where it is not in the spec as it stands: of one image of a list.
    std::shared_ptr<const v1::Stage> made;
  };
  // A cache stage.
  struct CachePoint {
    const v1::Cache* stage = nullptr;
    std::string path;
    size_t steps_before = 0;
  };
  const v1::Source* source = nullptr;
  const google::protobuf::Map<std::string, v1::Feature>* features = nullptr;
  std::vector<Step> steps;
  size_t own_steps = 0;  // the first ones, which are this source's own
  std::vector<CachePoint> caches;
  ImageLists lists;  // of images, that there are after the last step
  // In a mixture: the source's number and its place, "source.mixture.sources[1]".
  std::optional<int64_t> source_id;
  std::string path;
};

std::vector<SourceChain> SourceChains(const v1::PipelineSpec& spec);

// "stages[2].resize".
std::string StepPath(const SourceChain::Step& step);

// Whether the step made `feature`, one of those after it.
bool StepGives(const SourceChain::Step& step, const FeatureSignature& feature);

// The place of a spec's first stage that `is_meant`, "stages[2].fault"; empty if it has none.
std::string FirstStageThat(const v1::PipelineSpec& spec,
                           absl::FunctionRef<bool(const v1::Stage&)> is_meant);

// The place of the first stage that runs Python, for samples or batches; empty if there is none.
std::string FirstPythonStage(const v1::PipelineSpec& spec);

// The user code that a spec names (CodeName::loaded), each once, in the order of its stages. Empty
// if it names none.
std::vector<std::string> UserCodeOf(const v1::PipelineSpec& spec);

// By the label of its stage (StageLabels), what messages call the user code that the spec names.
std::map<std::string, std::string> CodeOfStages(const v1::PipelineSpec& spec);

// The names of a spec's stages in messages, status and metrics: "stages[0] decode_image",
// "source.mixture.sources[1].stages[0] resize", "batch_stages[0] mixup". A running pipeline has no
// others, but may have joined some.
std::set<std::string> StageLabels(const v1::PipelineSpec& spec);
// Of these, the cache stages, and those that decode images.
std::set<std::string> CacheLabels(const v1::PipelineSpec& spec);
std::set<std::string> DecodeLabels(const v1::PipelineSpec& spec);

// The place of the first cache stage, "stages[1].cache"; empty if there is none.
std::string FirstCacheStage(const v1::PipelineSpec& spec);

// Checks the places of the chain's cache stages. Errors: SPEC_INVALID.
absl::Status CheckCaches(const SourceChain& chain);

// Checks the place of the chain's stage that needs other samples, if it has one. Errors:
// SPEC_INVALID.
absl::Status CheckPartners(const SourceChain& chain);

// Whether the chain decodes images.
bool DecodesImages(const v1::PipelineSpec& spec);
// Whether it crops them, too, so that only parts of images may be decoded.
bool MayDecodeParts(const v1::PipelineSpec& spec);

// "source.mixture.sources[1]".
std::string MixedSourcePath(int source);

// SourceFeatures of the chain's source, with `source_id` if it belongs to a mixture; places are
// those in the whole spec. Problems and `wrong`: as for SourceFeatures.
std::optional<std::vector<FeatureSignature>> ChainFeatures(const SourceChain& chain,
                                                           SpecProblems& problems,
                                                           std::set<std::string>& wrong);

}  // namespace bulkhead

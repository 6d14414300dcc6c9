#ifndef BULKHEAD_SERVER_SPEC_SOURCE_CHAIN_H_
#define BULKHEAD_SERVER_SPEC_SOURCE_CHAIN_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

// One source of a spec and everything that is done to its samples. A spec without a mixture has
// one; of a mixture, each source has one: its own stages, then the common ones. `cache` stages do
// nothing to a sample: they are no steps. Points into the spec, which must outlive it and stay as
// it is.
struct SourceChain {
  struct Step {
    const v1::Stage* stage = nullptr;
    std::string path;  // "stages[2]", "source.mixture.sources[1].stages[0]"
    // The path that it would have without cache stages: what its random numbers are keyed by.
    std::string key_path;
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
  size_t own_steps = 0;  // the first so many are this source's own
  std::vector<CachePoint> caches;
  // Of a mixture: the number of the source and its place, "source.mixture.sources[1]".
  std::optional<int64_t> source_id;
  std::string path;
};

std::vector<SourceChain> SourceChains(const v1::PipelineSpec& spec);

// The place of a spec's first stage that `is_meant`, "stages[2].fault"; empty when it has none.
std::string FirstStageThat(const v1::PipelineSpec& spec,
                           absl::FunctionRef<bool(const v1::Stage&)> is_meant);

// The place of the first stage that runs Python, among samples' stages or batches'; empty when
// there is none.
std::string FirstPythonStage(const v1::PipelineSpec& spec);

// The user's own code that a spec names, each once, in the order of its stages: "augment:process"
// of Python, "libmeans.so" of a library. Empty: it has none.
std::vector<std::string> UserCodeOf(const v1::PipelineSpec& spec);

// What the stages of a spec are called where each is told of by itself, in messages, in the status,
// in metrics: "stages[0] decode_image", "source.mixture.sources[1].stages[0] resize",
// "batch_stages[0] mixup". A running pipeline has no others, but may have joined some to others.
std::set<std::string> StageLabels(const v1::PipelineSpec& spec);

// The place of the first cache stage, "stages[1].cache"; empty when there is none.
std::string FirstCacheStage(const v1::PipelineSpec& spec);

// Whether the chain's cache stages stand where they can. Errors: SPEC_INVALID.
absl::Status CheckCaches(const SourceChain& chain);

// Whether the chain's stage that takes other samples in, if it has one, stands where it can.
// Errors: SPEC_INVALID.
absl::Status CheckPartners(const SourceChain& chain);

// Whether it decodes images and crops, so that parts of images may be all that is decoded.
bool MayDecodeParts(const v1::PipelineSpec& spec);

// "source.mixture.sources[1]".
std::string MixedSourcePath(int source);

// SourceFeatures of the chain's source, with `source_id` where it belongs to a mixture; places are
// those in the whole spec. Problems and `wrong`: as of SourceFeatures.
std::optional<std::vector<FeatureSignature>> ChainFeatures(const SourceChain& chain,
                                                           SpecProblems& problems,
                                                           std::set<std::string>& wrong);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_SOURCE_CHAIN_H_

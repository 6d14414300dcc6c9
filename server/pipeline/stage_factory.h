#ifndef BULKHEAD_SERVER_PIPELINE_STAGE_FACTORY_H_
#define BULKHEAD_SERVER_PIPELINE_STAGE_FACTORY_H_

#include <memory>
#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/pipeline/geometry_stages.h"
#include "server/pipeline/sample_stage.h"
#include "server/spec/signature.h"

namespace bulkhead {

// A stage of a normalized spec and what stands around it.
struct StageSite {
  const v1::Stage& stage;
  StagePlace place;
  const std::vector<FeatureSignature>& before;  // the features that come in, sorted by name
  const std::vector<FeatureSignature>& after;   // those that go out
};

// The running stage that `site` asks for, by itself; null for a kind that is not known here
// (decode_image, which the planner joins with what follows it).
std::unique_ptr<SampleStage> MakeStage(const StageSite& site);

// The crop that a stage begins with; null when it begins with none.
std::unique_ptr<CropStage> MakeCropStage(const StageSite& site);

// Channels of the image that the stage reads: of its first feature.
size_t ChannelsBefore(const StageSite& site);

// By family; null for a stage of another one.
std::unique_ptr<SampleStage> MakeGeometryStage(const StageSite& site);
std::unique_ptr<SampleStage> MakeColorStage(const StageSite& site);
std::unique_ptr<SampleStage> MakeWarpStage(const StageSite& site);
std::unique_ptr<SampleStage> MakeBoxStage(const StageSite& site);
std::unique_ptr<SampleStage> MakeMosaicStage(const StageSite& site);
std::unique_ptr<SampleStage> MakeNumberStage(const StageSite& site);
std::unique_ptr<SampleStage> MakeUserStage(const StageSite& site);
std::unique_ptr<SampleStage> MakeFaultStage(const StageSite& site);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_STAGE_FACTORY_H_

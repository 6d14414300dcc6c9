#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/image/codecs/image_decoder.h"
#include "server/pipeline/follow.h"
#include "server/pipeline/pipeline.h"
#include "server/pipeline/pipeline_part.h"
#include "server/pipeline/stage_observer.h"
#include "server/pipeline/values_aside.h"
#include "server/source/source.h"

namespace bulkhead {

// What one thread needs for the stages of a pipeline.
class StagedContext final : public PipelineContext {
 public:
  explicit StagedContext(const std::vector<PipelinePart>& parts) {
    size_t features = 0;
    size_t stages = 0;
    for (const PipelinePart& part : parts) {
      read.push_back(part.source->NewContext());
      features = std::max(features, part.plan.feature_count);
      stages = std::max(stages, part.plan.stages.size());
      if (!part.cached.has_value()) continue;
      stages = std::max(stages, part.cached->plan.stages.size());
      features = std::max(features, part.cached->plan.feature_count);
    }
    values.resize(features);
    scratch = std::vector<StageScratch>(stages);
    follower_memory = std::vector<FollowerMemory>(features);
    decoder.SetShare(&decode_share);
  }

  // A sample is done: the requested one, or one that was made for it.
  void GiveBackShare() {
    if (!decode_share.GiveBack()) return;
    kept = std::string();
    frames.Clear();
    for (StageScratch& stage : scratch) {
      stage.image.Release();
      stage.upright.Release();
      stage.deep.Release();
    }
  }

  std::vector<std::unique_ptr<ReadContext>> read;  // by part
  // One sample is made at a time, so the parts share the following members.
  Record record;
  ImageDecoder decoder;
  std::vector<Value> values;          // by feature
  std::vector<StageScratch> scratch;  // by stage
  DecodedFrames frames;
  GeometryTrail trail;                          // of the stage that is running
  std::vector<FollowerMemory> follower_memory;  // by feature
  ScratchBuffer batch_scratch;
  std::string identity;  // of the current record
  // Of that, and of the files that its bytes were read from.
  StoreKey record_key;
  std::string key_bytes;  // what it was made of
  // For a cache stage: the found values, or those to keep.
  std::string kept;
  std::vector<Value> kept_values;
  // For a stage with partners: its own memory, which stays while the partners' stages use
  // `scratch`.
  StageScratch partnered_scratch;
  ValuesAside aside;
  Record partner_record;
  std::vector<Value> partner_values;
  WorkCounts counts;

  void Enter(uint32_t stage) const {
    if (observer != nullptr) observer->Enter(stage);
  }
  void Name(absl::string_view identity) const {
    if (observer != nullptr) observer->NameSample(identity);
  }
};

}  // namespace bulkhead

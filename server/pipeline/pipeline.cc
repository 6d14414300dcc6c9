#include "server/pipeline/pipeline.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/random.h"
#include "server/base/record_name.h"
#include "server/image/image_decoder.h"
#include "server/pipeline/batch_stage.h"
#include "server/pipeline/follow.h"
#include "server/pipeline/make_pipeline.h"
#include "server/pipeline/output_writer.h"
#include "server/pipeline/stage_observer.h"
#include "server/pipeline/stage_plan.h"
#include "server/source/numbered_source.h"
#include "server/spec/signature.h"
#include "server/spec/source_chain.h"

namespace bulkhead {
namespace {

// A source and what is done to its samples.
struct PipelinePart {
  std::unique_ptr<Source> source;
  StagePlan plan;
  uint64_t first_record = 0;
};

class Context : public PipelineContext {
 public:
  explicit Context(const std::vector<PipelinePart>& parts) {
    size_t features = 0;
    size_t stages = 0;
    for (const PipelinePart& part : parts) {
      read.push_back(part.source->NewContext());
      features = std::max(features, part.plan.feature_count);
      stages = std::max(stages, part.plan.stages.size());
    }
    values.resize(features);
    scratch = std::vector<StageScratch>(stages);
    follower_memory = std::vector<FollowerMemory>(features);
    decoder.SetShare(&decode_share);
  }

  // The sample is done.
  void GiveBackShare() {
    if (!decode_share.GiveBack()) return;
    for (StageScratch& stage : scratch) {
      stage.image.Release();
      stage.upright.Release();
      stage.deep.Release();
    }
  }

  std::vector<std::unique_ptr<ReadContext>> read;  // by part
  // One sample is made at a time, so the parts share what follows.
  Record record;
  ImageDecoder decoder;
  std::vector<Value> values;                    // by feature
  std::vector<StageScratch> scratch;            // by stage
  GeometryTrail trail;                          // of the stage that is running
  std::vector<FollowerMemory> follower_memory;  // by feature
  ScratchBuffer batch_scratch;

  void Enter(uint32_t stage) const {
    if (observer != nullptr) observer->Enter(stage);
  }
  void Name(absl::string_view identity) const {
    if (observer != nullptr) observer->NameSample(identity);
  }
};

// What a feature is before any stage.
Value ReadValue(const FeatureSignature& feature, const FeatureValue& read) {
  Value value;
  value.form = feature.kind == FeatureSignature::Kind::kEncoded ? Value::Form::kEncoded
                                                                : Value::Form::kElements;
  value.dtype = feature.dtype;
  value.data = read.data;
  value.size_bytes = read.size_bytes;
  value.count = read.count;
  return value;
}

class StagedPipeline : public Pipeline {
 public:
  StagedPipeline(std::vector<PipelinePart> parts, uint64_t record_count,
                 std::vector<std::unique_ptr<BatchStage>> batch_stages)
      : parts_(std::move(parts)),
        record_count_(record_count),
        batch_stages_(std::move(batch_stages)) {
    for (PipelinePart& part : parts_) NumberStages(part.plan);
    first_batch_stage_ = StageObserver::kFirstStage + static_cast<uint32_t>(stage_names_.size());
    for (const auto& stage : batch_stages_) stage_names_.push_back(stage->place().Label());
  }

  uint64_t record_count() const override { return record_count_; }

  std::unique_ptr<PipelineContext> NewContext() const override {
    return std::make_unique<Context>(parts_);
  }

  std::string Identity(uint64_t record) const override {
    const PipelinePart& part = parts_[PartOf(record)];
    return CanonicalRecordName(part.source->RecordName(record - part.first_record));
  }
  std::vector<std::string> StageNames() const override { return stage_names_; }

  void Expect(uint64_t record, const SampleKey& key, PipelineContext& context) const override {
    auto& own = static_cast<Context&>(context);
    const size_t number = PartOf(record);
    const PipelinePart& part = parts_[number];
    if (own.observer != nullptr) {
      own.observer->BeginSample(key);
      own.Name(Identity(record));
    }
    own.Enter(StageObserver::kSource);
    part.source->Expect(record - part.first_record, *own.read[number]);
    own.Enter(StageObserver::kOutside);
    if (own.observer != nullptr) own.observer->EndBatch();
  }

  absl::Status Produce(uint64_t record, const SampleKey& key, PipelineContext& context,
                       absl::Span<std::byte* const> destinations) const override {
    auto& own = static_cast<Context&>(context);
    if (own.observer != nullptr) own.observer->BeginSample(key);
    const absl::Status status = ProduceNoted(record, key, own, destinations);
    own.GiveBackShare();
    if (own.observer != nullptr) {
      own.observer->CountDecodes(own.decoder.jpeg_counts());
      own.observer->EndSample();
    }
    return status;
  }

  bool has_batch_stages() const override { return !batch_stages_.empty(); }

  absl::Status FinishBatch(uint64_t rows, const SampleKey& first, PipelineContext& context,
                           absl::Span<std::byte* const> tensors) const override {
    auto& own = static_cast<Context&>(context);
    if (own.observer != nullptr) own.observer->BeginSample(first);
    absl::Status status;
    for (size_t i = 0; i < batch_stages_.size() && status.ok(); ++i) {
      own.Enter(first_batch_stage_ + static_cast<uint32_t>(i));
      status = batch_stages_[i]->RunOn({tensors, rows, first, own.batch_scratch});
      if (status.ok() && own.observer != nullptr) {
        own.observer->LeaveBatchStage(first_batch_stage_ + static_cast<uint32_t>(i));
      }
    }
    own.Enter(StageObserver::kOutside);
    if (own.observer != nullptr) own.observer->EndBatch();
    return status;
  }

 private:
  // Stages of the same place have the same number.
  void NumberStages(StagePlan& plan) {
    for (PlannedStage& planned : plan.stages) {
      const std::string name = planned.stage->place().Label();
      const auto known = std::find(stage_names_.begin(), stage_names_.end(), name);
      planned.number = StageObserver::kFirstStage + (known - stage_names_.begin());
      if (known == stage_names_.end()) stage_names_.push_back(name);
    }
  }

  absl::Status ProduceNoted(uint64_t record, const SampleKey& key, Context& own,
                            absl::Span<std::byte* const> destinations) const {
    const size_t number = PartOf(record);
    const PipelinePart& part = parts_[number];
    if (own.observer != nullptr || own.seek_store != nullptr) {
      const std::string identity = Identity(record);
      own.Name(identity);
      own.decoder.SetSeek(own.seek_store, StableHash(identity), own.make_seek_entries);
    }
    own.Enter(StageObserver::kSource);
    const absl::Status read =
        part.source->Read(record - part.first_record, *own.read[number], own.record);
    absl::Status produced;
    if (read.ok()) {
      produced = RunStages(part, record - part.first_record, key, own, destinations);
    }
    own.Enter(StageObserver::kOutside);
    if (read.ok() && produced.ok()) return produced;
    const std::string position = absl::StrCat(key.position);
    if (!read.ok()) {
      return Annotate(read, absl::StrCat("position ", position), {{"position", position}});
    }
    std::map<std::string, std::string> metadata = RecordMetadata(Identity(record));
    metadata["position"] = position;
    return Annotate(produced, absl::StrCat("position ", position, ": ", own.record.origin),
                    std::move(metadata));
  }

  // The last part that does not begin behind `record`.
  size_t PartOf(uint64_t record) const {
    const auto behind = std::upper_bound(
        parts_.begin() + 1, parts_.end(), record,
        [](uint64_t wanted, const PipelinePart& part) { return wanted < part.first_record; });
    return behind - parts_.begin() - 1;
  }

  absl::Status RunStages(const PipelinePart& part, uint64_t record, const SampleKey& key,
                         Context& own, absl::Span<std::byte* const> destinations) const {
    const StagePlan& plan = part.plan;
    const uint64_t samples_before = samples_.fetch_add(1, std::memory_order_relaxed);
    for (size_t i = 0; i < plan.source_feature_count; ++i) {
      own.values[i] = ReadValue(part.source->features()[i], own.record.values[i]);
    }
    if (own.observer != nullptr) {
      own.observer->Leave(StageObserver::kSource, {own.values, plan.source_features});
    }
    for (size_t i = 0; i < plan.stages.size(); ++i) {
      const PlannedStage& planned = plan.stages[i];
      own.Enter(planned.number);
      std::byte* target = planned.target_output < 0 ? nullptr : destinations[planned.target_output];
      own.trail.clear();
      GeometryTrail* trail = planned.followers.empty() ? nullptr : &own.trail;
      BULKHEAD_RETURN_IF_ERROR(planned.stage->RunOn(
          {own.values, planned.features},
          {own.decoder, own.scratch[i], key, record, samples_before, target, trail}));
      for (const PlannedFollower& follower : planned.followers) {
        BULKHEAD_RETURN_IF_ERROR(planned.stage->place().Name(
            Follow(own.trail, follower.annotation, own.values[follower.feature],
                   own.follower_memory[follower.feature])));
      }
      if (own.observer != nullptr) {
        own.observer->Leave(planned.number, {own.values, planned.features});
      }
    }
    own.Enter(StageObserver::kOutside);
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
      const PlannedOutput& output = plan.outputs[i];
      if (output.feature == PlannedOutput::kOfBatch) continue;
      const Value& value = own.values[output.feature];
      BULKHEAD_RETURN_IF_ERROR(output.is_count
                                   ? WriteCount(value, output.tensor, destinations[i])
                                   : WriteOutput(value, output.tensor, destinations[i]));
    }
    return absl::OkStatus();
  }

  std::vector<PipelinePart> parts_;
  std::vector<std::string> stage_names_;
  const uint64_t record_count_;
  const std::vector<std::unique_ptr<BatchStage>> batch_stages_;
  uint32_t first_batch_stage_ = 0;
  mutable std::atomic<uint64_t> samples_{0};
};

// Whether the source gives what the spec says.
bool Matches(const Source& source, const SourceSignature& signature) {
  return std::equal(
      source.features().begin(), source.features().end(), signature.source_features.begin(),
      signature.source_features.end(),
      [](const FeatureSignature& a, const FeatureSignature& b) { return a.name == b.name; });
}

absl::Status Disagree(absl::string_view what) {
  return MakeError(absl::StatusCode::kInternal, reason::kInternal,
                   absl::StrCat(what, "; please report this"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Pipeline>> MakePipeline(std::vector<std::unique_ptr<Source>> sources,
                                                       v1::PipelineSpec spec,
                                                       const PipelineOptions& options) {
  // How samples are batched does not concern a pipeline, but a spec is not whole without it.
  if (!spec.has_batch()) spec.mutable_batch()->set_size(1);
  BULKHEAD_ASSIGN_OR_RETURN(const PipelineSignature signature, InferSignature(spec));
  const std::vector<SourceChain> chains = SourceChains(spec);
  if (sources.size() != chains.size()) return Disagree("the spec names other sources");
  std::vector<PipelinePart> parts;
  uint64_t record_count = 0;
  for (size_t i = 0; i < chains.size(); ++i) {
    std::unique_ptr<Source> source = std::move(sources[i]);
    if (chains[i].source_id.has_value()) {
      source = MakeNumberedSource(std::move(source), *chains[i].source_id);
    }
    if (!Matches(*source, signature.sources[i])) {
      return Disagree("the source's features are not those that its spec names");
    }
    PipelinePart part;
    BULKHEAD_ASSIGN_OR_RETURN(
        part.plan, PlanStages(chains[i], signature.sources[i], signature.schema, options.fuse));
    for (const PlannedStage& planned : part.plan.stages) {
      BULKHEAD_RETURN_IF_ERROR(planned.stage->Load(options.user_code));
    }
    part.first_record = record_count;
    record_count += source->record_count();
    part.source = std::move(source);
    parts.push_back(std::move(part));
  }
  BULKHEAD_ASSIGN_OR_RETURN(auto batch_stages, MakeBatchStages(spec, signature));
  for (const auto& stage : batch_stages) {
    BULKHEAD_RETURN_IF_ERROR(stage->Load(options.user_code));
  }
  return std::make_unique<StagedPipeline>(std::move(parts), record_count, std::move(batch_stages));
}

}  // namespace bulkhead

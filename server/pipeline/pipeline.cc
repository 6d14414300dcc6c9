#include "server/pipeline/pipeline.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/pipeline/make_pipeline.h"
#include "server/pipeline/record_reader.h"
#include "server/pipeline/sample_maker.h"
#include "server/pipeline/stage_observer.h"
#include "server/pipeline/stage_plan.h"
#include "server/pipeline/staged_context.h"
#include "server/source/numbered_source.h"
#include "server/spec/batch_stages.h"
#include "server/spec/image_lists.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/signature.h"
#include "server/spec/source_chain.h"
#include "server/stages/running/batch_stage.h"
#include "server/stages/running/registry.h"

namespace bulkhead {
namespace {

class StagedPipeline : public Pipeline {
 public:
  StagedPipeline(std::vector<PipelinePart> parts, uint64_t record_count,
                 std::vector<std::unique_ptr<BatchStage>> batch_stages)
      : parts_(std::move(parts)),
        record_count_(record_count),
        batch_stages_(std::move(batch_stages)) {
    for (PipelinePart& part : parts_) {
      NumberStages(part.plan);
      if (!part.cached.has_value()) continue;
      NumberStages(part.cached->plan);
      part.cached->number = NumberOf(part.cached->label);
    }
    first_batch_stage_ = StageObserver::kFirstStage + static_cast<uint32_t>(stage_names_.size());
    for (const auto& stage : batch_stages_) stage_names_.push_back(stage->place().Label());
  }

  uint64_t record_count() const override { return record_count_; }

  std::unique_ptr<PipelineContext> NewContext() const override {
    return std::make_unique<StagedContext>(parts_);
  }

  std::string Identity(uint64_t record) const override {
    std::string identity;
    records_.SetIdentity(record, identity);
    return identity;
  }
  std::vector<std::string> StageNames() const override { return stage_names_; }

  void Expect(uint64_t record, const SampleKey& key, PipelineContext& context) const override {
    auto& own = static_cast<StagedContext&>(context);
    if (own.observer != nullptr) own.observer->BeginSample(key);
    records_.Expect(record, own);
    const StagePlan& plan = records_.PartOf(record).plan;
    if (plan.partnered.stage != StagePlan::Partnered::kNone && own.partners != nullptr) {
      plan.stages[plan.partnered.stage].stage->ListPartners(
          key, own.partners->positions,
          [&](uint64_t position) { records_.Expect(own.partners->record_at(position), own); });
    }
    own.Enter(StageObserver::kOutside);
    if (own.observer != nullptr) own.observer->EndBatch();
  }

  absl::Status Produce(uint64_t record, const SampleKey& key, PipelineContext& context,
                       absl::Span<std::byte* const> destinations) const override {
    auto& own = static_cast<StagedContext&>(context);
    if (own.observer != nullptr) own.observer->BeginSample(key);
    const absl::Status status = MakeSample(records_, samples_, record, key, own, destinations);
    if (own.observer != nullptr) {
      own.counts.jpeg = own.decoder.jpeg_counts();
      own.observer->CountWork(own.counts);
      own.observer->EndSample();
    }
    return status;
  }

  bool shares_frames() const override {
    return std::any_of(parts_.begin(), parts_.end(),
                       [](const PipelinePart& part) { return part.frames_reach > 0; });
  }

  bool has_batch_stages() const override { return !batch_stages_.empty(); }

  absl::Status FinishBatch(uint64_t rows, const SampleKey& first, PipelineContext& context,
                           absl::Span<std::byte* const> tensors) const override {
    auto& own = static_cast<StagedContext&>(context);
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
      planned.number = NumberOf(planned.stage->place().Label());
    }
  }

  uint32_t NumberOf(const std::string& name) {
    const auto known = std::find(stage_names_.begin(), stage_names_.end(), name);
    const auto number = static_cast<uint32_t>(known - stage_names_.begin());
    if (known == stage_names_.end()) stage_names_.push_back(name);
    return StageObserver::kFirstStage + number;
  }

  std::vector<PipelinePart> parts_;
  const RecordReader records_{parts_};
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

absl::Status Load(const StagePlan& plan, const PipelineOptions& options) {
  for (const PlannedStage& planned : plan.stages) {
    BULKHEAD_RETURN_IF_ERROR(planned.stage->Load(options.user_code));
  }
  return absl::OkStatus();
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
  FillImplied(spec);
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
        part.plan, PlanStages(chains[i], signature.sources[i], signature.schema, options.fuse,
                              chains[i].steps.size()));
    BULKHEAD_RETURN_IF_ERROR(Load(part.plan, options));
    if (!chains[i].caches.empty()) {
      BULKHEAD_ASSIGN_OR_RETURN(
          part.cached, PlanCached(chains[i], signature.sources[i], signature.schema, options.fuse));
      BULKHEAD_RETURN_IF_ERROR(Load(part.cached->plan, options));
    }
    if (const v1::Frames* const frames = FramesOf(*chains[i].source); frames != nullptr) {
      part.frames_reach = (frames->window() - 1) / frames->stride();
    }
    part.first_record = record_count;
    record_count += source->record_count();
    part.source = std::move(source);
    parts.push_back(std::move(part));
  }
  std::vector<std::unique_ptr<BatchStage>> batch_stages;
  for (int k = 0; k < spec.batch_stages_size(); ++k) {
    std::unique_ptr<BatchStage> stage = MakeBatchStage({spec, signature, k});
    if (stage == nullptr) return Disagree(absl::StrCat(BatchStagePath(k), " is unknown"));
    BULKHEAD_RETURN_IF_ERROR(stage->Load(options.user_code));
    batch_stages.push_back(std::move(stage));
  }
  return std::make_unique<StagedPipeline>(std::move(parts), record_count, std::move(batch_stages));
}

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Create(
    const internal::v1::PipelineBinding& binding, const UserCode& user_code) {
  v1::PipelineSpec spec;
  *spec.mutable_source() = binding.source();
  *spec.mutable_features() = binding.features();
  *spec.mutable_stages() = binding.stages();
  *spec.mutable_batch_stages() = binding.batch_stages();
  *spec.mutable_outputs() = binding.outputs();
  const std::vector<SourceChain> chains = SourceChains(spec);
  const bool mixture = spec.source().has_mixture();
  if (mixture && binding.resolved().mixed_size() != static_cast<int>(chains.size())) {
    return Disagree("the mixture's sources were not all resolved");
  }
  std::vector<std::unique_ptr<Source>> sources;
  for (const SourceChain& chain : chains) {
    const internal::v1::ResolvedSource& resolved =
        mixture ? binding.resolved().mixed(static_cast<int>(sources.size())) : binding.resolved();
    BULKHEAD_ASSIGN_OR_RETURN(std::unique_ptr<Source> source,
                              OpenSource(*chain.source, *chain.features, resolved));
    sources.push_back(std::move(source));
  }
  PipelineOptions options;
  options.user_code = user_code;
  return MakePipeline(std::move(sources), std::move(spec), options);
}

}  // namespace bulkhead

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
#include "server/pipeline/batch_stage.h"
#include "server/pipeline/kept_values.h"
#include "server/pipeline/make_pipeline.h"
#include "server/pipeline/output_writer.h"
#include "server/pipeline/stage_observer.h"
#include "server/pipeline/stage_plan.h"
#include "server/pipeline/staged_context.h"
#include "server/source/numbered_source.h"
#include "server/spec/signature.h"
#include "server/spec/source_chain.h"

namespace bulkhead {
namespace {

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
    SetIdentity(record, identity);
    return identity;
  }
  std::vector<std::string> StageNames() const override { return stage_names_; }

  void Expect(uint64_t record, const SampleKey& key, PipelineContext& context) const override {
    auto& own = static_cast<StagedContext&>(context);
    if (own.observer != nullptr) own.observer->BeginSample(key);
    ExpectRecord(record, own);
    const StagePlan& plan = parts_[PartOf(record)].plan;
    if (plan.mosaic.stage != StagePlan::Mosaic::kNone && own.partners != nullptr) {
      plan.stages[plan.mosaic.stage].stage->ListPartners(
          key, own.partners->positions(),
          [&](uint64_t position) { ExpectRecord(own.partners->RecordAt(position), own); });
    }
    own.Enter(StageObserver::kOutside);
    if (own.observer != nullptr) own.observer->EndBatch();
  }

  absl::Status Produce(uint64_t record, const SampleKey& key, PipelineContext& context,
                       absl::Span<std::byte* const> destinations) const override {
    auto& own = static_cast<StagedContext&>(context);
    if (own.observer != nullptr) own.observer->BeginSample(key);
    const absl::Status read = ReadRecord(record, own);
    absl::Status status = read;
    if (read.ok()) {
      const PipelinePart& part = parts_[PartOf(record)];
      const Sample sample = NewSample(part, record, key);
      const Way way = BeginWay(part, sample, own, destinations);
      status = RunStages(*way.plan, way.begin, way.plan->stages.size(), sample, own, destinations);
      if (status.ok()) status = WriteOutputs(*way.plan, own, destinations);
    }
    own.Enter(StageObserver::kOutside);
    if (!status.ok()) status = NameFailure(read, status, record, key, own);
    own.GiveBackShare();
    if (own.observer != nullptr) {
      own.counts.jpeg = own.decoder.jpeg_counts();
      own.observer->CountWork(own.counts);
      own.observer->EndSample();
    }
    return status;
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
  void ExpectRecord(uint64_t record, StagedContext& own) const {
    const size_t number = PartOf(record);
    const PipelinePart& part = parts_[number];
    if (own.observer != nullptr) {
      SetIdentity(record, own.identity);
      own.Name(own.identity);
    }
    own.Enter(StageObserver::kSource);
    part.source->Expect(record - part.first_record, *own.read[number]);
  }

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

  // Makes it the record at hand.
  absl::Status ReadRecord(uint64_t record, StagedContext& own) const {
    const size_t number = PartOf(record);
    const PipelinePart& part = parts_[number];
    NameRecord(record, own);
    own.Enter(StageObserver::kSource);
    return part.source->Read(record - part.first_record, *own.read[number], own.record);
  }

  // Reuses the memory of `identity`.
  void SetIdentity(uint64_t record, std::string& identity) const {
    const PipelinePart& part = parts_[PartOf(record)];
    part.source->NameRecord(record - part.first_record, identity);
    identity = CanonicalRecordName(std::move(identity));
  }

  // Identity of the current record from here on.
  void NameRecord(uint64_t record, StagedContext& own) const {
    if (own.observer != nullptr || own.seek_store != nullptr || own.cache_store != nullptr) {
      SetIdentity(record, own.identity);
      own.Name(own.identity);
      own.identity_hash = StableHash(own.identity);
      own.decoder.SetSeek(own.seek_store, own.identity_hash, own.reads_again);
    }
  }

  // What went wrong in reading the record, or in making something of it.
  absl::Status NameFailure(const absl::Status& read, const absl::Status& produced, uint64_t record,
                           const SampleKey& key, const StagedContext& own) const {
    const std::string position = absl::StrCat(key.position);
    std::map<std::string, std::string> metadata = RecordMetadata(Identity(record));
    metadata["position"] = position;
    if (!read.ok()) {
      return Annotate(read, absl::StrCat("position ", position), std::move(metadata));
    }
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

  struct Sample {
    const SampleKey& key;
    uint64_t record;  // within its source
    uint64_t samples_before;
    uint64_t record_of_all;
  };

  Sample NewSample(const PipelinePart& part, uint64_t record, const SampleKey& key) const {
    return {key, record - part.first_record, samples_.fetch_add(1, std::memory_order_relaxed),
            record};
  }

  // How a sample goes on: with which stages, and from which of them.
  struct Way {
    const StagePlan* plan;
    size_t begin;
  };

  // Takes up the record at hand: the values are those before the way's first stage.
  Way BeginWay(const PipelinePart& part, const Sample& sample, StagedContext& own,
               absl::Span<std::byte* const> destinations) const {
    BeginStages(part, own);
    if (own.observer != nullptr) {
      own.observer->Leave(StageObserver::kSource, {own.values, part.plan.source_features});
    }
    const bool cached = part.cached.has_value() && own.cache_store != nullptr;
    if (cached && MakeKept(part, sample, own, destinations)) {
      return {&part.cached->plan, part.cached->plan.kept.stages};
    }
    return {&part.plan, 0};
  }

  // Makes the other samples of a mosaic, in the memory that the sample's own stages worked in.
  class Partners final : public PartnerMaker {
   public:
    Partners(const StagedPipeline& pipeline, const StagePlan& plan, const Sample& sample,
             StagedContext& own)
        : pipeline_(pipeline), plan_(plan), sample_(sample), own_(own) {}
    // The sample's own values and name are back. Not called when another sample ends the thread:
    // its name stands.
    void End() {
      if (!begun_) return;
      std::swap(own_.record, own_.partner_record);
      own_.aside.Restore(own_.values, plan_.mosaic.bystanders);
      pipeline_.NameRecord(sample_.record_of_all, own_);
    }

    uint64_t positions() const override { return own_.partners->positions(); }

    absl::Status Make(uint64_t position, absl::string_view what,
                      absl::FunctionRef<absl::Status()> use) override {
      if (!begun_) {
        own_.aside.Put(own_.values, plan_.mosaic.bystanders);
        std::swap(own_.record, own_.partner_record);
        begun_ = true;
      }
      const SampleKey key{sample_.key.seed, sample_.key.epoch, position};
      return own_.partners->Make(position, what, [&](uint64_t record) {
        return pipeline_.MakePartner(record, key, plan_, own_, use);
      });
    }

   private:
    const StagedPipeline& pipeline_;
    const StagePlan& plan_;
    const Sample& sample_;
    StagedContext& own_;
    bool begun_ = false;
  };

  // Has the sample of `record` made up to its mosaic, and `use` its values there as those of
  // `plan`'s mosaic.
  absl::Status MakePartner(uint64_t record, const SampleKey& key, const StagePlan& plan,
                           StagedContext& own, absl::FunctionRef<absl::Status()> use) const {
    // The image before it is done with; what was put aside is not.
    own.GiveBackShare();
    if (own.aside.bytes() > 0) own.decode_share.Take(own.aside.bytes());
    const PipelinePart& part = parts_[PartOf(record)];
    const absl::Status read = ReadRecord(record, own);
    absl::Status made = read;
    if (read.ok()) {
      const Sample sample = NewSample(part, record, key);
      const Way way = BeginWay(part, sample, own, {});
      made = RunStages(*way.plan, way.begin, way.plan->mosaic.stage, sample, own, {});
      const PlannedStage& mosaic = plan.stages[plan.mosaic.stage];
      own.Enter(mosaic.number);
      if (made.ok()) {
        TakeValues(way.plan->stages[way.plan->mosaic.stage].features, mosaic.features, own);
        made = use();
      }
    }
    if (made.ok()) return made;
    return NameFailure(read, made, record, key, own);
  }

  // What features are called `from` in the plan of one source, another calls `to`.
  static void TakeValues(const std::vector<size_t>& from, const std::vector<size_t>& to,
                         StagedContext& own) {
    own.partner_values.clear();
    for (const size_t feature : from) own.partner_values.push_back(own.values[feature]);
    for (size_t i = 0; i < to.size(); ++i) own.values[to[i]] = own.partner_values[i];
  }

  // The values as the source gives them.
  static void BeginStages(const PipelinePart& part, StagedContext& own) {
    for (size_t i = 0; i < part.plan.source_feature_count; ++i) {
      own.values[i] = ReadValue(part.source->features()[i], own.record.values[i]);
    }
  }

  // Has the values behind the cache stage found, or made and kept. False when they cannot be made:
  // then the sample is to be made without a cache, which decides what is wrong with it.
  bool MakeKept(const PipelinePart& part, const Sample& sample, StagedContext& own,
                absl::Span<std::byte* const> destinations) const {
    const CachedPlan& cached = *part.cached;
    own.Enter(cached.number);
    const StoreKey key = cached.KeyOf(own.identity_hash, own.values);
    if (own.cache_store->Find(key, own.kept)) {
      own.decode_share.Take(own.kept.size());
      if (UseKept(cached, own)) {
        ++own.counts.kept_found;
        return true;
      }
    }
    // Where nothing is kept, what is there to be joined across the cache stage is joined.
    if (!own.reads_again || !own.cache_store->HasRoom()) return false;
    if (!RunStages(cached.plan, 0, cached.plan.kept.stages, sample, own, destinations).ok()) {
      BeginStages(part, own);
      return false;
    }
    own.Enter(cached.number);
    uint64_t bytes = 0;
    for (const size_t feature : cached.plan.kept.features) bytes += KeptBytes(own.values[feature]);
    own.decode_share.Take(bytes);
    own.kept.clear();
    own.kept.reserve(bytes);
    for (const size_t feature : cached.plan.kept.features) {
      AppendKept(own.values[feature], own.kept);
    }
    // From what is kept, as it will be from now on; what cannot be read back would never be found.
    if (UseKept(cached, own) && own.cache_store->Add(key, own.kept)) ++own.counts.kept_added;
    return true;
  }

  // Takes the values behind the cache stage from what is kept; false when that makes no sense.
  static bool UseKept(const CachedPlan& cached, StagedContext& own) {
    if (!ReadKept(own.kept, cached.plan.kept.signatures, own.kept_values)) return false;
    for (size_t i = 0; i < own.kept_values.size(); ++i) {
      own.values[cached.plan.kept.features[i]] = own.kept_values[i];
    }
    return true;
  }

  absl::Status RunStages(const StagePlan& plan, size_t begin, size_t end, const Sample& sample,
                         StagedContext& own, absl::Span<std::byte* const> destinations) const {
    for (size_t i = begin; i < end; ++i) {
      const PlannedStage& planned = plan.stages[i];
      own.Enter(planned.number);
      // What belongs to another sample does not go into this one's place.
      const bool in_place = planned.target_output >= 0 && !destinations.empty();
      std::byte* target = in_place ? destinations[planned.target_output] : nullptr;
      own.trail.clear();
      GeometryTrail* trail = planned.followers.empty() ? nullptr : &own.trail;
      const StageValues values(own.values, planned.features);
      if (i == plan.mosaic.stage) {
        BULKHEAD_RETURN_IF_ERROR(RunMosaic(*planned.stage, values, plan, sample, own, target));
      } else {
        BULKHEAD_RETURN_IF_ERROR(
            planned.stage->RunOn(values, {own.decoder, own.scratch[i], sample.key, sample.record,
                                          sample.samples_before, target, trail}));
      }
      for (const PlannedFollower& follower : planned.followers) {
        BULKHEAD_RETURN_IF_ERROR(planned.stage->place().Name(
            Follow(own.trail, follower.annotation, own.values[follower.feature],
                   own.follower_memory[follower.feature])));
      }
      if (own.observer != nullptr) {
        own.observer->Leave(planned.number, {own.values, planned.features});
      }
    }
    return absl::OkStatus();
  }

  absl::Status RunMosaic(const SampleStage& stage, const StageValues& values, const StagePlan& plan,
                         const Sample& sample, StagedContext& own, std::byte* target) const {
    Partners partners(*this, plan, sample, own);
    const absl::Status status = stage.RunOn(
        values, {own.decoder, own.mosaic_scratch, sample.key, sample.record, sample.samples_before,
                 target, nullptr, own.partners == nullptr ? nullptr : &partners});
    partners.End();
    return status;
  }

  static absl::Status WriteOutputs(const StagePlan& plan, StagedContext& own,
                                   absl::Span<std::byte* const> destinations) {
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
    BULKHEAD_RETURN_IF_ERROR(Load(part.plan, options));
    if (!chains[i].caches.empty()) {
      BULKHEAD_ASSIGN_OR_RETURN(
          part.cached, PlanCached(chains[i], signature.sources[i], signature.schema, options.fuse));
      BULKHEAD_RETURN_IF_ERROR(Load(part.cached->plan, options));
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

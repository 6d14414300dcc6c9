#include "server/pipeline/sample_maker.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/pipeline/kept_values.h"
#include "server/pipeline/pipeline_part.h"
#include "server/pipeline/stage_observer.h"

namespace bulkhead {
namespace {

// What a feature is before any stage.
Value ReadValue(const FeatureSignature& feature, const FeatureValue& read, uint64_t part) {
  Value value;
  value.form = feature.kind == FeatureSignature::Kind::kEncoded ? Value::Form::kEncoded
                                                                : Value::Form::kElements;
  value.dtype = feature.dtype;
  value.data = read.data;
  value.size_bytes = read.size_bytes;
  value.unread = read.later;
  value.count = read.count;
  if (read.frame != 0) value.frame = read.frame | part << 56;
  return value;
}

absl::Status Mismatch(const v1::TensorSchema& tensor, size_t size_bytes) {
  return MakeError(absl::StatusCode::kInternal, reason::kInternal,
                   absl::StrCat("output `", tensor.name(), "` came out with another type or size (",
                                size_bytes, " bytes) than its schema says (", tensor.sample_bytes(),
                                "); please report this"));
}

absl::Status WritePixels(const MutableImageView& pixels, const v1::TensorSchema& tensor,
                         std::byte* destination) {
  const size_t size_bytes = pixels.row_bytes() * pixels.height;
  if (size_bytes != tensor.sample_bytes()) return Mismatch(tensor, size_bytes);
  if (reinterpret_cast<std::byte*>(pixels.data) == destination) return absl::OkStatus();
  for (int y = 0; y < pixels.height; ++y) {
    std::memcpy(destination + y * pixels.row_bytes(), pixels.row(y), pixels.row_bytes());
  }
  return absl::OkStatus();
}

// Writes the final `value` to its place in the batch: all of the tensor's sample_bytes, padding
// zeroed. A value that a stage has already written there is only padded. Errors: OVER_BOUND (a
// sample error) for a byte string longer than the tensor's field; INTERNAL if type or size are not
// those of the schema.
absl::Status WriteOutput(const Value& value, const v1::TensorSchema& tensor,
                         std::byte* destination) {
  if (value.dtype != tensor.dtype()) return Mismatch(tensor, value.size_bytes);
  if (value.form == Value::Form::kPixels) return WritePixels(value.pixels, tensor, destination);
  if (value.size_bytes > tensor.sample_bytes()) {
    if (value.form != Value::Form::kEncoded) return Mismatch(tensor, value.size_bytes);
    return SampleError(
        reason::kOverBound,
        absl::StrCat("`", tensor.name(), "` has ", value.size_bytes, " bytes, more than the ",
                     tensor.sample_bytes(), " of its output; raise max_bytes"));
  }
  if (value.data != destination && value.size_bytes > 0) {
    std::memcpy(destination, value.data, value.size_bytes);
  }
  std::memset(destination + value.size_bytes, 0, tensor.sample_bytes() - value.size_bytes);
  return absl::OkStatus();
}

// Writes a `<name>_count` output: the extent of `value`'s first dimension, int64.
absl::Status WriteCount(const Value& value, const v1::TensorSchema& tensor,
                        std::byte* destination) {
  if (tensor.dtype() != v1::DTYPE_INT64 || tensor.sample_bytes() != sizeof(int64_t)) {
    return Mismatch(tensor, sizeof(int64_t));
  }
  std::memcpy(destination, &value.count, sizeof(int64_t));
  return absl::OkStatus();
}

// Makes one sample; keeps no state between samples.
class SampleMaker {
 public:
  SampleMaker(const RecordReader& records, std::atomic<uint64_t>& samples, StagedContext& own)
      : records_(records), samples_(samples), own_(own) {}

  absl::Status Make(uint64_t record, const SampleKey& key,
                    absl::Span<std::byte* const> destinations) {
    own_.frames.Begin(own_.lease, HasFramesLater(record));
    const absl::Status read = records_.Read(record, own_);
    absl::Status status = read;
    if (read.ok()) {
      const PipelinePart& part = records_.PartOf(record);
      const Sample sample = NewSample(part, record, key);
      const Way way = BeginWay(part, sample, destinations);
      status = RunStages(*way.plan, way.begin, way.plan->stages.size(), sample, destinations);
      if (status.ok()) status = WriteOutputs(*way.plan, destinations);
    }
    own_.Enter(StageObserver::kOutside);
    if (!status.ok()) status = records_.NameFailure(read, status, record, key, own_);
    own_.GiveBackShare();
    return status;
  }

 private:
  struct Sample {
    const SampleKey& key;
    uint64_t record;  // within its source
    uint64_t samples_before;
    uint64_t record_of_all;
  };
  // The rest of a sample's way: a plan, and the stage to continue from.
  struct Way {
    const StagePlan* plan;
    size_t begin;
  };

  // Whether a later sample of the lease may have frames of `record`.
  bool HasFramesLater(uint64_t record) const {
    const uint64_t reach = records_.PartOf(record).frames_reach;
    return reach > 0 &&
           std::any_of(own_.later_records.begin(), own_.later_records.end(), [&](uint64_t later) {
             return std::max(later, record) - std::min(later, record) <= reach;
           });
  }

  Sample NewSample(const PipelinePart& part, uint64_t record, const SampleKey& key) {
    return {key, record - part.first_record, samples_.fetch_add(1, std::memory_order_relaxed),
            record};
  }

  // Begins with the current record: the values are those before the first stage of the way.
  Way BeginWay(const PipelinePart& part, const Sample& sample,
               absl::Span<std::byte* const> destinations) {
    BeginStages(part);
    if (own_.observer != nullptr) {
      own_.observer->Leave(StageObserver::kSource, {own_.values, part.plan.source_features});
    }
    const bool cached =
        part.cached.has_value() && own_.stores.cache_stages != nullptr && !own_.whole_images;
    if (cached && MakeKept(part, sample, destinations)) {
      return {&part.cached->plan, part.cached->plan.kept.stages};
    }
    return {&part.plan, 0};
  }

  // Sets the values to those of the source.
  void BeginStages(const PipelinePart& part) {
    for (size_t i = 0; i < part.plan.source_feature_count; ++i) {
      own_.values[i] =
          ReadValue(part.source->features()[i], own_.record.values[i], records_.NumberOf(part));
    }
  }

  // Finds the values after the cache stage, or makes and keeps them. False if they cannot be made:
  // then the sample must be made without a cache, which decides its error.
  bool MakeKept(const PipelinePart& part, const Sample& sample,
                absl::Span<std::byte* const> destinations) {
    const CachedPlan& cached = *part.cached;
    own_.Enter(cached.number);
    const StoreKey key = cached.KeptKey(own_.record_key, own_.values);
    if (own_.stores.cache_stages->Find(key, own_.kept)) {
      own_.decode_share.Take(own_.kept.size());
      if (UseKept(cached)) {
        ++own_.counts.kept_found;
        return true;
      }
    }
    // Where nothing is kept, what is there to be joined across the cache stage is joined.
    if (!own_.reads_again || !own_.stores.cache_stages->HasRoom()) return false;
    if (!RunStages(cached.plan, 0, cached.plan.kept.stages, sample, destinations).ok()) {
      BeginStages(part);
      return false;
    }
    own_.Enter(cached.number);
    uint64_t bytes = 0;
    for (const size_t feature : cached.plan.kept.features) bytes += KeptBytes(own_.values[feature]);
    own_.decode_share.Take(bytes);
    own_.kept.clear();
    own_.kept.reserve(bytes);
    for (const size_t feature : cached.plan.kept.features) {
      AppendKept(own_.values[feature], own_.kept);
    }
    // From what is kept, as it will be from now on; what cannot be read back would never be found.
    if (UseKept(cached) && own_.stores.cache_stages->Add(key, own_.kept)) ++own_.counts.kept_added;
    return true;
  }

  // Sets the values after the cache stage to the kept ones; false if those are invalid.
  bool UseKept(const CachedPlan& cached) {
    if (!ReadKept(own_.kept, cached.plan.kept.signatures, own_.kept_values)) return false;
    for (size_t i = 0; i < own_.kept_values.size(); ++i) {
      own_.values[cached.plan.kept.features[i]] = own_.kept_values[i];
    }
    return true;
  }

  absl::Status RunStages(const StagePlan& plan, size_t begin, size_t end, const Sample& sample,
                         absl::Span<std::byte* const> destinations) {
    for (size_t i = begin; i < end; ++i) {
      const PlannedStage& planned = plan.stages[i];
      own_.Enter(planned.number);
      // What belongs to another sample does not go into this one's place.
      const bool in_place = planned.target_output >= 0 && !destinations.empty();
      std::byte* target = in_place ? destinations[planned.target_output] : nullptr;
      own_.trail.clear();
      GeometryTrail* trail = planned.followers.empty() ? nullptr : &own_.trail;
      const StageValues values(own_.values, planned.features);
      if (i == plan.partnered.stage) {
        BULKHEAD_RETURN_IF_ERROR(RunPartnered(*planned.stage, values, plan, sample, target));
      } else {
        const absl::Status status =
            planned.stage->RunOn(values, {own_.decoder, own_.scratch[i], sample.key, sample.record,
                                          sample.samples_before, target, trail, nullptr,
                                          own_.whole_images, &own_.frames});
        if (!status.ok()) {
          return planned.image.empty() ? status
                                       : Annotate(status, absl::StrCat("`", planned.image, "`"));
        }
      }
      for (const PlannedFollower& follower : planned.followers) {
        BULKHEAD_RETURN_IF_ERROR(planned.stage->place().Name(
            Follow(own_.trail, follower.annotation, own_.values[follower.feature],
                   own_.follower_memory[follower.feature])));
      }
      if (own_.observer != nullptr) {
        own_.observer->Leave(planned.number, {own_.values, planned.features});
      }
    }
    return absl::OkStatus();
  }

  absl::Status RunPartnered(const SampleStage& stage, const StageValues& values,
                            const StagePlan& plan, const Sample& sample, std::byte* target) {
    // Other samples are made in the memory that the sample's own stages worked in.
    bool begun = false;
    const auto make = [&](uint64_t position, absl::string_view what,
                          absl::FunctionRef<absl::Status()> use) {
      if (!begun) {
        own_.aside.Put(own_.values, plan.partnered.bystanders);
        std::swap(own_.record, own_.partner_record);
        begun = true;
      }
      const SampleKey key{sample.key.seed, sample.key.epoch, position};
      return own_.partners->make(
          position, what, [&](uint64_t record) { return MakePartner(record, key, plan, use); });
    };
    const bool has_partners = own_.partners != nullptr;
    const PartnerMaker maker = {has_partners ? own_.partners->positions : 1, make};
    const absl::Status status = stage.RunOn(
        values, {own_.decoder, own_.partnered_scratch, sample.key, sample.record,
                 sample.samples_before, target, nullptr, has_partners ? &maker : nullptr});
    if (!begun) return status;
    // The sample's own values and name are back. Not reached when another sample ends the thread:
    // its name stands.
    std::swap(own_.record, own_.partner_record);
    own_.aside.Restore(own_.values, plan.partnered.bystanders);
    records_.GoBackTo(sample.record_of_all, own_);
    return status;
  }

  // Makes the sample of `record` up to its stage with partners, and calls `use` with its values
  // there, in the places of those of `plan`.
  absl::Status MakePartner(uint64_t record, const SampleKey& key, const StagePlan& plan,
                           absl::FunctionRef<absl::Status()> use) {
    // The image before it is done with; what was put aside is not.
    own_.GiveBackShare();
    if (own_.aside.bytes() > 0) own_.decode_share.Take(own_.aside.bytes());
    const PipelinePart& part = records_.PartOf(record);
    const absl::Status read = records_.Read(record, own_);
    absl::Status made = read;
    if (read.ok()) {
      const Sample sample = NewSample(part, record, key);
      const Way way = BeginWay(part, sample, {});
      made = RunStages(*way.plan, way.begin, way.plan->partnered.stage, sample, {});
      const PlannedStage& partnered = plan.stages[plan.partnered.stage];
      own_.Enter(partnered.number);
      if (made.ok()) {
        TakeValues(way.plan->stages[way.plan->partnered.stage].features, partnered.features);
        made = use();
      }
    }
    if (made.ok()) return made;
    return records_.NameFailure(read, made, record, key, own_);
  }

  // Pairs of features that are the same in the plans of two sources: numbered `from` in one, `to`
  // in the other.
  void TakeValues(const std::vector<size_t>& from, const std::vector<size_t>& to) {
    own_.partner_values.clear();
    for (const size_t feature : from) own_.partner_values.push_back(own_.values[feature]);
    for (size_t i = 0; i < to.size(); ++i) own_.values[to[i]] = own_.partner_values[i];
  }

  absl::Status WriteOutputs(const StagePlan& plan, absl::Span<std::byte* const> destinations) {
    own_.Enter(StageObserver::kOutside);
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
      const PlannedOutput& output = plan.outputs[i];
      if (output.feature == PlannedOutput::kOfBatch) continue;
      const Value& value = own_.values[output.feature];
      BULKHEAD_RETURN_IF_ERROR(output.is_count
                                   ? WriteCount(value, output.tensor, destinations[i])
                                   : WriteOutput(value, output.tensor, destinations[i]));
    }
    return absl::OkStatus();
  }

  const RecordReader& records_;
  std::atomic<uint64_t>& samples_;
  StagedContext& own_;
};

}  // namespace

absl::Status MakeSample(const RecordReader& records, std::atomic<uint64_t>& samples,
                        uint64_t record, const SampleKey& key, StagedContext& own,
                        absl::Span<std::byte* const> destinations) {
  return SampleMaker(records, samples, own).Make(record, key, destinations);
}

}  // namespace bulkhead

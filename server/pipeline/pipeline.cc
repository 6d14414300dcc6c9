#include "server/pipeline/pipeline.h"

#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/image/image_decoder.h"
#include "server/pipeline/make_pipeline.h"
#include "server/pipeline/output_writer.h"
#include "server/pipeline/stage_plan.h"
#include "server/spec/signature.h"

namespace bulkhead {
namespace {

class Context : public PipelineContext {
 public:
  Context(std::unique_ptr<ReadContext> read_context, const StagePlan& plan)
      : read(std::move(read_context)), values(plan.feature_count), scratch(plan.stages.size()) {}

  std::unique_ptr<ReadContext> read;
  Record record;
  ImageDecoder decoder;
  std::vector<Value> values;          // by feature
  std::vector<StageScratch> scratch;  // by stage
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

// "file@offset" in two, where a record's origin is of that kind.
std::map<std::string, std::string> OriginMetadata(const std::string& origin) {
  std::map<std::string, std::string> metadata = {{"record", origin}};
  const size_t at = origin.rfind('@');
  uint64_t offset = 0;
  if (at != std::string::npos && absl::SimpleAtoi(origin.substr(at + 1), &offset)) {
    metadata["file"] = origin.substr(0, at);
    metadata["offset"] = origin.substr(at + 1);
  } else {
    metadata["file"] = origin;
  }
  return metadata;
}

class StagedPipeline : public Pipeline {
 public:
  StagedPipeline(std::unique_ptr<Source> source, StagePlan plan)
      : source_(std::move(source)), plan_(std::move(plan)) {}

  uint64_t record_count() const override { return source_->record_count(); }

  std::unique_ptr<PipelineContext> NewContext() const override {
    return std::make_unique<Context>(source_->NewContext(), plan_);
  }

  absl::Status Produce(uint64_t record, const SampleKey& key, PipelineContext& context,
                       absl::Span<std::byte* const> destinations) const override {
    auto& own = static_cast<Context&>(context);
    const std::string position = absl::StrCat(key.position);
    if (const absl::Status read = source_->Read(record, *own.read, own.record); !read.ok()) {
      return Annotate(read, absl::StrCat("position ", position), {{"position", position}});
    }
    const absl::Status produced = RunStages(key, own, destinations);
    if (produced.ok()) return produced;
    std::map<std::string, std::string> metadata = OriginMetadata(own.record.origin);
    metadata["position"] = position;
    return Annotate(produced, absl::StrCat("position ", position, ": ", own.record.origin),
                    std::move(metadata));
  }

 private:
  absl::Status RunStages(const SampleKey& key, Context& own,
                         absl::Span<std::byte* const> destinations) const {
    for (size_t i = 0; i < own.values.size(); ++i) {
      own.values[i] = ReadValue(source_->features()[i], own.record.values[i]);
    }
    for (size_t i = 0; i < plan_.stages.size(); ++i) {
      const PlannedStage& planned = plan_.stages[i];
      std::byte* target = planned.target_output < 0 ? nullptr : destinations[planned.target_output];
      BULKHEAD_RETURN_IF_ERROR(planned.stage->Run(own.values[planned.feature],
                                                  {own.decoder, own.scratch[i], key, target}));
    }
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const PlannedOutput& output = plan_.outputs[i];
      const Value& value = own.values[output.feature];
      BULKHEAD_RETURN_IF_ERROR(output.is_count
                                   ? WriteCount(value, output.tensor, destinations[i])
                                   : WriteOutput(value, output.tensor, destinations[i]));
    }
    return absl::OkStatus();
  }

  std::unique_ptr<Source> source_;
  StagePlan plan_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Pipeline>> MakePipeline(std::unique_ptr<Source> source,
                                                       v1::PipelineSpec spec,
                                                       const PipelineOptions& options) {
  // How samples are batched does not concern a pipeline, but a spec is not whole without it.
  if (!spec.has_batch()) spec.mutable_batch()->set_size(1);
  BULKHEAD_ASSIGN_OR_RETURN(const PipelineSignature signature, InferSignature(spec));
  const std::vector<FeatureSignature>& features = source->features();
  bool equal = features.size() == signature.source_features.size();
  for (size_t i = 0; equal && i < features.size(); ++i) {
    equal = features[i].name == signature.source_features[i].name;
  }
  if (!equal) {
    return MakeError(absl::StatusCode::kInternal, reason::kInternal,
                     "the source's features are not those that its spec names; please report this");
  }
  BULKHEAD_ASSIGN_OR_RETURN(StagePlan plan, PlanStages(spec, signature, options.fuse));
  return std::make_unique<StagedPipeline>(std::move(source), std::move(plan));
}

}  // namespace bulkhead

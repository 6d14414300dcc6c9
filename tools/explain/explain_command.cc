#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bulkhead/error.h"
#include "bulkhead/loader.h"
#include "client/cpp/internal/rpc/public_types.h"
#include "server/base/byte_size.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/data/object_fetcher.h"
#include "server/os/files/user_folders.h"
#include "server/spec/batch_stages.h"
#include "server/spec/memory_plan.h"
#include "server/spec/source_chain.h"
#include "server/spec/stage_signature.h"
#include "tools/common/clock.h"
#include "tools/common/commands.h"
#include "tools/common/status_message.h"
#include "tools/common/user_code_options.h"
#include "tools/explain/explain_report.h"
#include "tools/explain/loader_memory.h"
#include "tools/explain/object_reading.h"
#include "tools/explain/stage_sizes.h"
#include "tools/explain/stage_times.h"
#include "tools/local/find_progress.h"
#include "tools/local/local_data.h"
#include "tools/local/local_pipeline.h"
#include "tools/local/own_run.h"
#include "tools/measure/own_service.h"

namespace bulkhead::tools {
namespace {

constexpr char kExplainExamples[] =
    R"(Samples are made in one thread of a process in the workers' sandbox, first with every
stage by itself and then as workers run them. The memory is that with which a service,
started for this, admits the stream. Python functions run in a separate interpreter; their
times include the transfer to it, which is shorter in a worker. Of data in object stores
it also shows what each order reads; the times are without the network.

Examples:
  bulkhead explain train.yaml
  bulkhead explain train.yaml --batch-sizes 1,2,4 --samples 1000
  bulkhead explain train.yaml --workers 4 --json
  bulkhead explain train.yaml --python-path code
)";

constexpr absl::Duration kExplainDeadline = absl::Seconds(60);
constexpr absl::Duration kProbe = absl::Seconds(30);  // longest look at what workers hold
constexpr uint64_t kMaxWarmUp = 32;

// Runs that measure, each in a process of its own.
constexpr char kRunEach[] = "each";  // every stage by itself, which also shows how large things are
constexpr char kRunJoined[] = "joined";  // as workers run the stages
constexpr char kRunAgain[] = "again";    // the same from the second epoch on

struct ExplainArguments {
  std::string spec;
  std::vector<uint64_t> batch_sizes;
  uint64_t samples = 256;
  uint32_t workers = 0;
  std::string quota;
  std::string budget;
  UserCodeOptions user_code;
  bool json = false;
  std::string run;             // this process is such a run
  bool reads_objects = false;  // the data have objects
};

// "uint8 [any,any,3]".
ExplainedFeature Explain(const FeatureSignature& feature) {
  ExplainedFeature explained;
  explained.name = feature.name;
  if (feature.kind == FeatureSignature::Kind::kEncoded) {
    explained.what = "encoded bytes";
    return explained;
  }
  uint64_t bytes = ElementBytes(feature.dtype);
  std::vector<std::string> extents;
  for (const int64_t extent : feature.shape) {
    extents.push_back(extent == -1 ? "any" : absl::StrCat(extent));
    bytes *= extent == -1 ? 0 : static_cast<uint64_t>(extent);
  }
  explained.what =
      absl::StrCat(feature.variable ? "up to " : "", DTypeName(feature.dtype),
                   extents.empty() ? "" : absl::StrCat(" [", absl::StrJoin(extents, ","), "]"));
  if (feature.normalization.has_value()) {
    explained.what += NormalizationSuffix(*feature.normalization);
  }
  explained.sample_bytes = bytes;
  return explained;
}

// Adds what a step gives to the row of its stage, which begins with the first image of a list.
void AddStep(const SourceChain::Step& step, const std::vector<FeatureSignature>& after,
             std::vector<ExplainedStage>& stages) {
  const std::string name = absl::StrCat(step.path, " ", StageName(*step.stage));
  auto row = std::ranges::find(stages, name, &ExplainedStage::name);
  if (row == stages.end()) row = stages.insert(row, {name, {}, 0});
  for (const FeatureSignature& feature : after) {
    if (StepGives(step, feature)) row->gives.push_back(Explain(feature));
  }
}

// The outputs that batch stage `index` packs: what a sample takes at most.
std::vector<ExplainedFeature> PackedBy(const v1::PipelineSpec& spec,
                                       const PipelineSignature& signature, int index) {
  const v1::BatchStage& stage = spec.batch_stages(index);
  std::vector<FeatureSignature> features =
      signature.sources[0].FeaturesBefore(signature.sources[0].features_after.size());
  MarkPacked(spec, spec.batch_stages_size(), features);
  const std::string path = absl::StrCat(BatchStagePath(index), ".", StageName(stage));
  std::vector<ExplainedFeature> packed;
  for (const FeatureSignature& feature : features) {
    const auto& tensors = signature.schema.tensors();
    const bool delivered = std::any_of(tensors.begin(), tensors.end(), [&](const auto& tensor) {
      return tensor.name() == feature.name;
    });
    if (feature.packed_at != path || !delivered) continue;
    ExplainedFeature& explained = packed.emplace_back(Explain(feature));
    explained.what += feature.packing == v1::PACKING_ROWS ? ", without padding" : " or smaller";
  }
  return packed;
}

// The rows of all written stages: those of a mixture's sources, then the common ones, once.
std::vector<ExplainedStage> StagesOf(const v1::PipelineSpec& spec,
                                     const PipelineSignature& signature) {
  std::vector<ExplainedStage> stages;
  ExplainedStage source{"source", {}, 0};
  for (const FeatureSignature& feature : signature.sources[0].source_features) {
    source.gives.push_back(Explain(feature));
  }
  stages.push_back(std::move(source));
  const std::vector<SourceChain> chains = SourceChains(spec);
  for (const bool common : {false, true}) {
    for (size_t c = 0; c < (common ? 1 : chains.size()); ++c) {
      const SourceChain& chain = chains[c];
      const size_t begin = common ? chain.own_steps : 0;
      const size_t end = common ? chain.steps.size() : chain.own_steps;
      for (size_t i = begin; i <= end; ++i) {
        for (const SourceChain::CachePoint& cache : chain.caches) {
          const bool is_common = absl::StartsWith(cache.path, "stages[");
          if (cache.steps_before == i && is_common == common) {
            stages.push_back({absl::StrCat(cache.path, " cache"), {}, 0});
          }
        }
        if (i == end) break;
        AddStep(chain.steps[i], signature.sources[c].features_after[i], stages);
      }
    }
  }
  stages.push_back({"batch", {}, 0});
  for (int i = 0; i < spec.batch_stages_size(); ++i) {
    stages.push_back({absl::StrCat(BatchStagePath(i), " ", StageName(spec.batch_stages(i))),
                      PackedBy(spec, signature, i), 0});
  }
  return stages;
}

// What the measured samples took where the signature does not say.
void AddSeen(const MeasuredStages& measured, Explanation& explanation) {
  for (ExplainedStage& stage : explanation.stages) {
    for (ExplainedFeature& feature : stage.gives) {
      const auto seen = measured.seen.find({stage.name, feature.name});
      if (seen != measured.seen.end()) feature.seen = seen->second;
    }
  }
}

// What the process of a run does.
absl::StatusOr<std::string> MeasureHere(const ExplainArguments& arguments) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::PipelineSpec spec, ReadSpecFile(arguments.spec));
  const bool joined = arguments.run != kRunEach;
  BULKHEAD_ASSIGN_OR_RETURN(const auto local,
                            LocalPipeline::Create(spec, SpecFolder(arguments.spec),
                                                  {joined, arguments.user_code, /*confine=*/true}));
  StageSizes sizes(spec, local->signature(), local->pipeline().StageNames());
  BULKHEAD_ASSIGN_OR_RETURN(
      MeasuredStages measured,
      MeasureStages(*local, arguments.samples, std::min(arguments.samples, kMaxWarmUp),
                    arguments.run == kRunAgain, joined ? nullptr : &sizes));
  for (const ExplainedStage& stage : StagesOf(spec, local->signature())) {
    for (const ExplainedFeature& feature : stage.gives) {
      if (joined || feature.sample_bytes > 0) continue;
      measured.seen[{stage.name, feature.name}] = sizes.Of(stage.name, feature.name);
    }
  }
  return TextOf(measured);
}

absl::StatusOr<MeasuredStages> Measure(const char* run, const LocalData& data) {
  std::vector<std::string> args = OwnArguments();
  args.insert(args.end(), {"--measure-run", run});
  BULKHEAD_ASSIGN_OR_RETURN(const std::string text, RunAgain(std::move(args), data));
  return MeasuredStagesFromText(text);
}

double ShareRead(const jpeg::DecodeCounts& counts) {
  return static_cast<double>(counts.mcus_read) /
         static_cast<double>(std::max<uint64_t>(1, counts.mcus));
}

// The most that a worker of this service, which has no other stream, was seen to hold so far, those
// that were replaced included: its own memory, not the arena.
uint64_t WorkerPeak(const v1::GetStatusResponse& status) {
  uint64_t most = 0;
  for (const v1::WorkerStatus& worker : status.workers()) {
    if (worker.role() == "pipeline") most = std::max(most, worker.usage().peak_memory_bytes());
  }
  for (const v1::WorkerExit& exit : status.recent_exits()) {
    most = std::max(most, exit.usage().peak_memory_bytes());
  }
  return most;
}

// Has the workers make as many samples, or for as long as kProbe allows: whole batches at once may
// be more than anybody waits for.
absl::Status MakeSamples(Loader& loader, uint64_t samples) {
  const absl::Time until = SteadyNow() + kProbe;
  for (uint64_t taken = 0; taken < samples;) {
    const absl::StatusOr<std::optional<Batch>> batch = loader.Next(until - SteadyNow());
    if (absl::IsDeadlineExceeded(batch.status())) return absl::OkStatus();
    if (!batch.ok()) return batch.status();
    if (!batch->has_value()) return absl::OkStatus();
    taken += (*batch)->sample_count();
  }
  return absl::OkStatus();
}

// What a stream takes that the service did not admit, by the plan that it makes of the spec.
absl::StatusOr<StreamMemory> PlanOfRefused(const ExplainArguments& arguments,
                                           const PipelineSignature& signature) {
  MemoryPlanOptions options;
  options.workers = std::max(1u, arguments.workers);
  if (!arguments.quota.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(options.worker_quota_bytes, ParseBytes(arguments.quota));
  }
  BULKHEAD_ASSIGN_OR_RETURN(const v1::MemoryPlan plan, PlanMemory(signature, options));
  return client_internal::ToStreamMemory(plan);
}

// By what the service that would run the spec here says of it, and by what its workers hold while
// they make the measured samples.
absl::Status ExplainMemory(const ExplainArguments& arguments, const PipelineSignature& signature,
                           Explanation& explanation) {
  std::vector<std::string> flags = arguments.user_code.ServiceArguments();
  if (!arguments.quota.empty()) flags.insert(flags.end(), {"--worker-quota", arguments.quota});
  if (!arguments.budget.empty()) flags.insert(flags.end(), {"--memory-budget", arguments.budget});
  flags.push_back("--allow-fault-stages");  // they are explained like all others
  if (arguments.reads_objects) {
    // What is read of them, and its indexes, are of use to the service that trains.
    BULKHEAD_ASSIGN_OR_RETURN(const std::string folder, UserCacheFolder());
    flags.insert(flags.end(), {"--cache-dir", folder});
  }
  BULKHEAD_ASSIGN_OR_RETURN(const auto service,
                            OwnService::Start(arguments.workers, std::move(flags)));
  LoaderOptions options;
  options.spec = SpecFile(arguments.spec);
  options.target = service->target();
  const auto opened = Loader::Open(std::move(options));
  const bool refused = ErrorReason(opened.status()) == reason::kBudgetExceeded;
  if (!opened.ok() && !refused) return opened.status();
  const absl::Status made = refused ? opened.status() : MakeSamples(**opened, arguments.samples);
  BULKHEAD_ASSIGN_OR_RETURN(const v1::GetStatusResponse status,
                            GetStatusMessage(service->target(), kExplainDeadline));
  explanation.budget_bytes = status.memory().budget_bytes();
  BULKHEAD_ASSIGN_OR_RETURN(const StreamMemory plan, refused ? PlanOfRefused(arguments, signature)
                                                             : (*opened)->info().memory);
  explanation.memory =
      MemoryParts(plan, status.memory(), signature.schema, arguments.reads_objects);
  if (!refused) explanation.samples_per_epoch = (*opened)->info().samples_per_epoch;
  if (refused) {
    explanation.refused = std::string(made.message());
    return absl::OkStatus();
  }
  if (!made.ok()) {
    explanation.not_expected = std::string(made.message());
    return absl::OkStatus();  // the table is worth having all the more
  }
  explanation.worker_peak_bytes = WorkerPeak(status);
  // Its workers, and the one that stands by to replace one.
  explanation.expected_bytes = status.memory().supervisor_bytes() + plan.arena_bytes +
                               (plan.workers + 1) * explanation.worker_peak_bytes +
                               (arguments.reads_objects ? FetchChild::kUsualBytes : 0);
  return absl::OkStatus();
}

// Measures the stages of `spec`, here.
absl::Status ExplainTimes(const v1::PipelineSpec& spec, const LocalData& data,
                          Explanation& explanation) {
  BULKHEAD_ASSIGN_OR_RETURN(const MeasuredStages unfused, Measure(kRunEach, data));
  AddSeen(unfused, explanation);
  BULKHEAD_ASSIGN_OR_RETURN(const MeasuredStages fused, Measure(kRunJoined, data));
  explanation.samples_per_epoch = unfused.samples_per_epoch;
  explanation.measured_samples = unfused.samples;
  explanation.unfused_seconds = unfused.sample_seconds;
  explanation.fused_seconds = fused.sample_seconds;
  if (fused.jpeg.crops > 0 || !FirstCacheStage(spec).empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(const MeasuredStages again, Measure(kRunAgain, data));
    explanation.again_seconds = again.sample_seconds;
    explanation.mcus_read = ShareRead(fused.jpeg);
    explanation.mcus_read_by_seek = ShareRead(again.jpeg);
    explanation.kept_sample_bytes = again.kept_sample_bytes;
    explanation.kept_share =
        static_cast<double>(again.kept_found) / static_cast<double>(again.samples);
  }
  for (ExplainedStage& stage : explanation.stages) {
    stage.joined = true;
    for (const StageTime& time : unfused.stages) {
      if (time.name != stage.name) continue;
      stage.seconds = time.seconds;
      stage.joined = false;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Explanation> Explain(ExplainArguments arguments) {
  Explanation explanation;
  explanation.spec = arguments.spec;
  BULKHEAD_ASSIGN_OR_RETURN(v1::PipelineSpec spec, ReadSpecFile(arguments.spec));
  BULKHEAD_ASSIGN_OR_RETURN(const PipelineSignature signature, InferSignature(spec));
  explanation.batch_size = signature.schema.batch_size();
  explanation.batch_bytes = signature.schema.batch_bytes();
  explanation.stages = StagesOf(spec, signature);
  BULKHEAD_ASSIGN_OR_RETURN(const auto data,
                            LocalData::Create(spec, SpecFolder(arguments.spec), ShowFinding()));
  arguments.reads_objects = data->found_objects() != nullptr;
  BULKHEAD_RETURN_IF_ERROR(ExplainTimes(spec, *data, explanation));
  const v1::PipelineSpec as_written = spec;
  for (const uint64_t size : arguments.batch_sizes) {
    spec.mutable_batch()->set_size(size);
    BULKHEAD_ASSIGN_OR_RETURN(const PipelineSignature other, InferSignature(spec));
    BULKHEAD_ASSIGN_OR_RETURN(const v1::MemoryPlan plan, PlanMemory(other, MemoryPlanOptions{}));
    const uint64_t batch_bytes = other.schema.batch_bytes();
    explanation.batches.push_back(
        {size, batch_bytes, plan.arena_bytes(), ClientBytesOverGrpc(batch_bytes)});
  }
  BULKHEAD_RETURN_IF_ERROR(ExplainMemory(arguments, signature, explanation));
  if (arguments.reads_objects) {
    auto readings = ExplainReading(as_written, *data);
    if (!readings.ok()) explanation.not_read = std::string(readings.status().message());
    if (readings.ok()) explanation.readings = *std::move(readings);
  }
  return explanation;
}

absl::Status RunExplain(const ExplainArguments& arguments) {
  BULKHEAD_ASSIGN_OR_RETURN(const Explanation explanation, Explain(arguments));
  const std::string text =
      arguments.json ? ExplanationJson(explanation).Text() + "\n" : ExplanationText(explanation);
  std::fputs(text.c_str(), stdout);
  // The table is worth having all the more, but a training would not begin.
  return explanation.refused.empty() ? absl::OkStatus()
                                     : absl::ResourceExhaustedError(explanation.refused);
}

}  // namespace

Command ExplainCommand() {
  const auto arguments = std::make_shared<ExplainArguments>();
  Command command{
      .name = "explain",
      .about = "Show where a spec's time and memory go, before a training run",
      .more = kExplainExamples,
      .options = {{"SPEC", "The spec, YAML or JSON", SpecPath(arguments->spec), true},
                  {"--batch-sizes", "Batch sizes to compare", Numbers(arguments->batch_sizes)},
                  {"--samples", "Samples to measure", Number(arguments->samples, 1)},
                  {"--workers", "Worker processes; auto or left out: the service chooses",
                   Workers(arguments->workers)},
                  {"--worker-quota", "Quota of each worker; left out: that of bulkheadd",
                   Size(arguments->quota)},
                  {"--memory-budget",
                   "Memory that the service may use, such as 8GiB; left out: half of what is "
                   "available",
                   Size(arguments->budget)},
                  {"--json", "Print JSON", Flag(arguments->json)},
                  {.name = "--measure-run",  // for its own use
                   .help = "",
                   .value = Text(arguments->run, "RUN"),
                   .hidden = true}},
      .run = [arguments]() -> absl::StatusOr<int> {
        if (!arguments->run.empty()) return AnswerRun(MeasureHere(*arguments));
        return Done(RunExplain(*arguments));
      }};
  Append(arguments->user_code.Options(), command.options);
  return command;
}

}  // namespace bulkhead::tools

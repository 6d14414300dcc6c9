#include "server/service/preparation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/sampler/mixture_order.h"
#include "server/spec/fingerprint.h"
#include "server/spec/memory_plan.h"
#include "server/spec/normalize.h"
#include "server/spec/selection.h"
#include "server/spec/source_chain.h"
#include "server/spec/spec_error.h"
#include "server/spec/yaml.h"

namespace bulkhead {
namespace {

// Of a source that was resolved, indexed and selected from.
absl::StatusOr<uint64_t> SamplesPerEpoch(const v1::Source& source,
                                         const internal::v1::ResolvedSource& resolved) {
  if (!source.has_mixture()) return CountSelected(source, resolved).samples();
  std::vector<uint64_t> records;
  for (int i = 0; i < resolved.mixed_size(); ++i) {
    records.push_back(
        CountSelected(source.mixture().sources(i).source(), resolved.mixed(i)).samples());
  }
  return MixtureSamplesPerEpoch(source.mixture(), records);
}

// Code of the user's comes from folders that the service names; without one there is none.
absl::Status RefuseUserStages(const v1::PipelineSpec& spec, const ServiceLimits& limits) {
  if (const std::string path = FirstPythonStage(spec); !path.empty() && !limits.no_python.empty()) {
    return SpecError(path, absl::StrCat("runs a function of yours, and ", limits.no_python));
  }
  if (const std::string path = FirstStageOf(spec, v1::Stage::kNative);
      !path.empty() && !limits.allow_native) {
    return SpecError(path,
                     "loads a library of yours, and this service does not know where it may load "
                     "it from: start bulkheadd with --native-path FOLDER");
  }
  return absl::OkStatus();
}

absl::Status RefuseFaultStages(const v1::PipelineSpec& spec) {
  const std::string path = FirstStageOf(spec, v1::Stage::kFault);
  if (path.empty()) return absl::OkStatus();
  return SpecError(path,
                   "makes workers misbehave, which is for trials and tests: this service does not "
                   "allow it; start bulkheadd with --allow-fault-stages, or leave the stage out");
}

// What a worker takes before its first sample, and the share of its quota that samples may take.
constexpr uint64_t kWarmWorkerBytes = uint64_t{20} << 20;
constexpr double kSampleShare = 0.8;

// Refuses what no sample of the declared sizes could ever pass. Images of any size are not judged
// by their max_pixels: few photos come near it.
absl::Status CheckQuota(const PipelineSignature& signature, const ServiceLimits& limits) {
  const uint64_t quota = limits.worker_quota_bytes;
  const auto share = static_cast<uint64_t>(kSampleShare * static_cast<double>(quota));
  const uint64_t allowance = share - std::min(share, kWarmWorkerBytes);
  if (signature.declared_bytes <= allowance) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kResourceExhausted, reason::kBudgetExceeded,
      absl::StrCat("one sample takes ", FormatBytes(signature.declared_bytes), " at ",
                   signature.declared_where,
                   ", by the sizes that the spec declares; a worker with a "
                   "quota of ",
                   FormatBytes(quota), " has 80% of that less the ", FormatBytes(kWarmWorkerBytes),
                   " that it takes itself = ", FormatBytes(allowance),
                   " for samples; declare smaller sizes or give a larger --worker-quota"),
      {{"path", signature.declared_where}});
}

// How often one opening has the indexes of a source built again that are damaged.
constexpr int kMostRebuilds = 2;

// Refuses what would not fit if nobody else were there.
absl::Status CheckFitsAlone(const v1::MemoryPlan& plan, const MemoryBudget::Config& memory) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::shared_ptr<MemoryBudget> empty,
                            MemoryBudget::Create(memory));
  MemoryBudget::Demand demand;
  demand.slot_count = plan.slot_count();
  demand.slot_bytes = plan.slot_bytes();
  demand.workers = 1;
  demand.worker_quota_bytes = plan.worker_quota_bytes();
  return empty->Admit(demand).status();
}

}  // namespace

Preparer::Preparer(ServiceLimits limits, DataRoots roots, IndexStore* indexes)
    : limits_(limits), roots_(std::move(roots)), indexes_(indexes) {}

absl::StatusOr<PreparedPipeline> Preparer::Understand(const v1::SpecInput& input,
                                                      uint32_t slots) const {
  PreparedPipeline prepared;
  switch (input.input_case()) {
    case v1::SpecInput::kText: {
      const std::string& name = input.text().name();
      BULKHEAD_ASSIGN_OR_RETURN(prepared.spec,
                                ParseSpec(input.text().text(), name.empty() ? "spec" : name));
      break;
    }
    case v1::SpecInput::kSpec:
      prepared.spec = input.spec();
      BULKHEAD_RETURN_IF_ERROR(Normalize(prepared.spec));
      break;
    case v1::SpecInput::INPUT_NOT_SET:
      return MakeError(absl::StatusCode::kInvalidArgument, reason::kProtocolViolation,
                       "the request carries no spec");
  }
  if (!limits_.allow_fault_stages) BULKHEAD_RETURN_IF_ERROR(RefuseFaultStages(prepared.spec));
  BULKHEAD_RETURN_IF_ERROR(RefuseUserStages(prepared.spec, limits_));
  BULKHEAD_ASSIGN_OR_RETURN(prepared.signature, InferSignature(prepared.spec));
  MemoryPlanOptions options;
  options.workers = limits_.workers;
  options.threads_per_worker = limits_.threads;
  options.worker_quota_bytes = limits_.worker_quota_bytes;
  options.slot_count = slots + 1;
  BULKHEAD_ASSIGN_OR_RETURN(prepared.memory, PlanMemory(prepared.signature, options));
  BULKHEAD_RETURN_IF_ERROR(CheckQuota(prepared.signature, limits_));
  BULKHEAD_RETURN_IF_ERROR(CheckFitsAlone(prepared.memory, limits_.memory));
  prepared.attribution = limits_.attribution;
  prepared.bytes_fingerprint = BytesFingerprint(prepared.spec);
  if (prepared.spec.source().has_range()) {
    if (!UserCodeOf(prepared.spec).empty()) AddRootsOfRange(roots_, prepared.resolved);
    const internal::v1::Selection selection = SelectionOf(prepared.spec, prepared.spec.errors());
    SetWindow(selection, prepared.resolved);
    prepared.order_fingerprint = OrderFingerprint(prepared.spec, prepared.resolved);
    if (!SelectsRecords(selection)) {
      const v1::SelectionCounts counts = CountSelected(prepared.spec.source(), prepared.resolved);
      BULKHEAD_RETURN_IF_ERROR(CheckSelected(selection, counts));
      prepared.samples_per_epoch = counts.samples();
    }
  }
  return prepared;
}

std::vector<v1::CodeFile> Preparer::ReadCode(std::vector<std::string> names) const {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<v1::CodeFile> files;
  for (const std::string& name : names) files.push_back(limits_.code_folders.Read(name));
  return files;
}

absl::Status Preparer::FindSource(const std::string& base_dir, const v1::Source& source,
                                  const google::protobuf::Map<std::string, v1::Feature>& features,
                                  const internal::v1::Selection& selection,
                                  internal::v1::ResolvedSource& resolved,
                                  const IndexStore::ProgressFn& progress,
                                  const IndexStore::CancelledFn& cancelled) const {
  for (int rebuilt = 0;; ++rebuilt) {
    const absl::Status found =
        FindOnce(base_dir, source, features, selection, resolved, progress, cancelled);
    const auto info = GetErrorInfo(found);
    const bool damaged = info.has_value() && info->reason == reason::kIndexDamaged;
    if (!damaged || rebuilt == kMostRebuilds) return found;
    NoteDamage(resolved, found);
  }
}

absl::Status Preparer::FindOnce(const std::string& base_dir, const v1::Source& source,
                                const google::protobuf::Map<std::string, v1::Feature>& features,
                                const internal::v1::Selection& selection,
                                internal::v1::ResolvedSource& resolved,
                                const IndexStore::ProgressFn& progress,
                                const IndexStore::CancelledFn& cancelled) const {
  BULKHEAD_ASSIGN_OR_RETURN(resolved, ResolveSource(source, base_dir, roots_));
  BULKHEAD_RETURN_IF_ERROR(indexes_->EnsureIndexes(source, resolved, progress, cancelled));
  BULKHEAD_RETURN_IF_ERROR(indexes_->EnsureSelections(source, FilterFeatures(features, selection),
                                                      selection, resolved, progress, cancelled));
  SetWindow(selection, resolved);
  return CheckSelected(selection, CountSelected(source, resolved));
}

absl::Status Preparer::FindMixture(const std::string& base_dir, const v1::PipelineSpec& spec,
                                   internal::v1::ResolvedSource& resolved,
                                   const IndexStore::ProgressFn& progress,
                                   const IndexStore::CancelledFn& cancelled) const {
  const v1::MixtureSource& mixture = spec.source().mixture();
  uint64_t files_before = 0;
  uint64_t records_before = 0;
  for (int i = 0; i < mixture.sources_size(); ++i) {
    const auto progress_of_all = [&](const v1::Progress& of_one) {
      v1::Progress report = of_one;
      report.set_files_done(files_before + of_one.files_done());
      report.set_files_total(files_before + of_one.files_total());
      report.set_records(records_before + of_one.records());
      // Nothing is known yet of the sources to come.
      if (i + 1 < mixture.sources_size()) report.clear_eta();
      report.set_activity(
          absl::StrCat("source ", i + 1, " of ", mixture.sources_size(), ": ", of_one.activity()));
      progress(report);
    };
    const v1::MixedSource& mixed = mixture.sources(i);
    internal::v1::ResolvedSource& found = *resolved.add_mixed();
    const absl::Status status =
        FindSource(base_dir, mixed.source(), mixed.features(), SelectionOf(mixed, spec.errors()),
                   found, progress_of_all, cancelled);
    if (!status.ok()) return Annotate(status, MixedSourcePath(i));
    files_before += found.files_size();
    records_before += CountSelected(mixed.source(), found).records();
  }
  return absl::OkStatus();
}

absl::Status Preparer::FindData(const std::string& base_dir, PreparedPipeline& prepared,
                                const IndexStore::ProgressFn& progress,
                                const IndexStore::CancelledFn& cancelled) const {
  const v1::PipelineSpec& spec = prepared.spec;
  if (prepared.samples_per_epoch > 0) return absl::OkStatus();  // the spec alone told
  if (spec.source().has_mixture()) {
    BULKHEAD_RETURN_IF_ERROR(FindMixture(base_dir, spec, prepared.resolved, progress, cancelled));
  } else {
    BULKHEAD_RETURN_IF_ERROR(FindSource(base_dir, spec.source(), spec.features(),
                                        SelectionOf(spec, spec.errors()), prepared.resolved,
                                        progress, cancelled));
  }
  BULKHEAD_ASSIGN_OR_RETURN(prepared.samples_per_epoch,
                            SamplesPerEpoch(spec.source(), prepared.resolved));
  prepared.order_fingerprint = OrderFingerprint(spec, prepared.resolved);
  BULKHEAD_ASSIGN_OR_RETURN(prepared.index_fds, indexes_->KeepOpen(prepared.resolved));
  return absl::OkStatus();
}

}  // namespace bulkhead

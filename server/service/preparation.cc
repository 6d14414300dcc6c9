#include "server/service/preparation.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/data/data_finder.h"
#include "server/data/found_objects.h"
#include "server/service/raw_messages.h"
#include "server/spec/fingerprint.h"
#include "server/spec/memory_plan.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/selection.h"
#include "server/spec/source_chain.h"
#include "server/spec/stage_signature.h"
#include "server/spec/yaml/yaml_tree.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {
namespace {

// The limit that the parser has for a spec's text.
absl::Status CheckSizes(const v1::SpecInput& input) {
  if (input.has_spec() && input.spec().ByteSizeLong() > kMaxYamlBytes) {
    return SpecError("", absl::StrCat("has ", input.spec().ByteSizeLong(), " bytes; at most ",
                                      kMaxYamlBytes, " are read"));
  }
  if (input.base_dir().size() < PATH_MAX) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
      absl::StrCat("base_dir has ", input.base_dir().size(), " bytes, more than a path can have"));
}

// User code must come from folders that the service names.
absl::Status RefuseUserStages(const v1::PipelineSpec& spec, const ServiceLimits& limits) {
  if (const std::string path = FirstPythonStage(spec); !path.empty() && !limits.no_python.empty()) {
    return SpecError(path, absl::StrCat("runs a function of yours, and ", limits.no_python));
  }
  const auto loads_library = [](const v1::Stage& stage) {
    return TraitsOf(stage).user_code == StageTraits::UserCode::kLibrary;
  };
  if (const std::string path = FirstStageThat(spec, loads_library);
      !path.empty() && !limits.allow_native) {
    return SpecError(path,
                     "loads a library of yours, and this service does not know where it may load "
                     "it from: start bulkheadd with --native-path FOLDER");
  }
  return absl::OkStatus();
}

absl::Status RefuseFaultStages(const v1::PipelineSpec& spec) {
  const std::string path =
      FirstStageThat(spec, [](const v1::Stage& stage) { return TraitsOf(stage).fails_on_purpose; });
  if (path.empty()) return absl::OkStatus();
  return SpecError(path,
                   "makes workers misbehave, and this service does not allow that; start bulkheadd "
                   "with --allow-fault-stages, or remove the stage");
}

// Memory of a worker before its first sample, and the share of its quota that samples may take.
constexpr uint64_t kWarmWorkerBytes = uint64_t{20} << 20;
constexpr double kSampleShare = 0.8;
// Of a spec's name; more is cut off where streams are told apart.
constexpr size_t kMostSpecNameBytes = 1024;

// Refuses specs whose declared sizes no sample could fit. Does not judge by max_pixels, which few
// photos come near.
absl::Status CheckQuota(const PipelineSignature& signature, const ServiceLimits& limits) {
  const uint64_t quota = limits.worker_quota_bytes;
  const auto share = static_cast<uint64_t>(kSampleShare * static_cast<double>(quota));
  const uint64_t allowance = share - std::min(share, kWarmWorkerBytes);
  if (signature.declared_bytes <= allowance) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kResourceExhausted, reason::kBudgetExceeded,
      absl::StrCat("one sample takes ", FormatBytes(signature.declared_bytes), " at ",
                   signature.declared_where,
                   " by the sizes that the spec declares, but a worker with a quota of ",
                   FormatBytes(quota), " has only 80% of that minus ",
                   FormatBytes(kWarmWorkerBytes), " of its own = ", FormatBytes(allowance),
                   " for samples; declare smaller sizes or use a larger --worker-quota"),
      {{"path", signature.declared_where}});
}

// Refuses what would not fit even without other streams.
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

// Whether the stage at this path leaves each number of a label as it is, though perhaps not all of
// its rows, or makes it one-hot.
bool KeepsClasses(absl::string_view path) {
  constexpr absl::string_view kStages[] = {"one_hot", "sanitize_boxes", "random_iou_crop", "mosaic",
                                           "pad_rows"};
  const absl::string_view stage = path.substr(path.rfind('.') + 1);
  return std::find(std::begin(kStages), std::end(kStages), stage) != std::end(kStages);
}

// Whether the output of this name has the source's labels, as numbers or one-hot.
bool IsLabel(const PreparedPipeline& prepared, const std::string& name) {
  const auto path_in = [&](const std::vector<FeatureSignature>& features) {
    const auto found = std::ranges::find(features, name, &FeatureSignature::name);
    return found == features.end() ? std::string() : found->path;
  };
  for (const SourceSignature& source : prepared.signature.sources) {
    std::string before = path_in(source.source_features);
    if (before.empty()) return false;
    for (const std::vector<FeatureSignature>& features : source.features_after) {
      const std::string after = path_in(features);
      if (after != before && !KeepsClasses(after)) return false;
      before = after;
    }
  }
  return true;
}

// `status`, of data that were looked for, with the place in the spec that names them.
absl::Status WithPlace(const absl::Status& status, const SpecNotes& notes) {
  const auto info = GetErrorInfo(status);
  if (!info.has_value()) return status;
  const auto path = info->metadata.find("path");
  if (path == info->metadata.end()) return status;
  const auto place = notes.data_places.find(path->second);
  if (place == notes.data_places.end()) return status;
  const bool has_path = absl::StartsWith(status.message(), path->second);  // of a mixture
  return Annotate(status,
                  has_path ? place->second : absl::StrCat(place->second, ": ", path->second));
}

}  // namespace

v1::BatchSchema SchemaWithClasses(const PreparedPipeline& prepared) {
  v1::BatchSchema schema = prepared.signature.schema;
  for (v1::TensorSchema& tensor : *schema.mutable_tensors()) {
    const auto names = prepared.class_names.find(tensor.name());
    if (names == prepared.class_names.end() || !IsLabel(prepared, tensor.name())) continue;
    // Class names come from lists and folders, which need not be in UTF-8; once escaped, they may
    // be too long.
    ClassNames printable;
    for (const std::string& known : names->second) {
      printable[names->first].push_back(Printable(known));
    }
    if (!IsTellable(printable)) continue;
    const std::vector<std::string>& all = printable[names->first];
    *tensor.mutable_class_names() = {all.begin(), all.end()};
  }
  return schema;
}

Preparer::Preparer(ServiceLimits limits, DataRoots roots, IndexStore* indexes,
                   ObjectFetcher* objects)
    : limits_(limits), roots_(std::move(roots)), indexes_(indexes), objects_(objects) {}

absl::StatusOr<PreparedPipeline> Preparer::Understand(const v1::SpecInput& input,
                                                      uint32_t slots) const {
  PreparedPipeline prepared;
  BULKHEAD_RETURN_IF_ERROR(CheckSizes(input));
  switch (input.input_case()) {
    case v1::SpecInput::kText: {
      const std::string& name = input.text().name();
      prepared.spec_name = Printable(absl::string_view(name).substr(0, kMostSpecNameBytes));
      BULKHEAD_ASSIGN_OR_RETURN(
          prepared.spec,
          ParseSpec(input.text().text(), name.empty() ? "spec" : name, prepared.notes));
      break;
    }
    case v1::SpecInput::kSpec: {
      prepared.spec = input.spec();
      SpecProblems problems;  // all mistakes in the spec, as from ParseSpec
      Normalize(prepared.spec, problems);
      InferSignature(prepared.spec, problems);
      BULKHEAD_RETURN_IF_ERROR(problems.ToStatus());
      break;
    }
    case v1::SpecInput::INPUT_NOT_SET:
      return ProtocolViolation("the request has no spec");
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
  prepared.bytes_fingerprint = BytesFingerprint(prepared.spec);
  if (prepared.spec.source().has_range()) {
    if (!UserCodeOf(prepared.spec).empty()) AddRootsOfRange(roots_, prepared.resolved);
    const internal::v1::Selection selection = SelectionOf(prepared.spec);
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

absl::StatusOr<std::vector<v1::CodeFile>> Preparer::ReadCode(
    std::vector<std::string> names, const FindCancelledFn& cancelled) const {
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<v1::CodeFile> files;
  for (const std::string& name : names) {
    if (cancelled()) return absl::CancelledError("nobody waits for the code any more");
    BULKHEAD_ASSIGN_OR_RETURN(files.emplace_back(), limits_.code_folders.Read(name));
  }
  return files;
}

absl::Status Preparer::FindData(const std::string& base_dir, PreparedPipeline& prepared,
                                const FindProgressFn& progress,
                                const FindCancelledFn& cancelled) const {
  if (prepared.samples_per_epoch > 0) return absl::OkStatus();  // known from the spec alone
  const DataFinder finder(roots_, indexes_, objects_);
  auto found = finder.Find(prepared.spec, base_dir, {progress, cancelled});
  if (!found.ok()) return WithPlace(found.status(), prepared.notes);
  FoundData data = *std::move(found);
  prepared.resolved = std::move(data.resolved);
  prepared.samples_per_epoch = data.samples_per_epoch;
  if (!data.classes_of_files.empty()) {
    NameClasses(data, prepared.spec);
    prepared.bytes_fingerprint = BytesFingerprint(prepared.spec);
  }
  prepared.class_names = std::move(data.class_names);
  prepared.order_fingerprint = OrderFingerprint(prepared.spec, prepared.resolved);
  BULKHEAD_ASSIGN_OR_RETURN(prepared.index_fds, indexes_->KeepOpen(prepared.resolved));
  return absl::OkStatus();
}

InputFetcher Preparer::FetcherOf(const internal::v1::ResolvedSource& resolved) const {
  const auto objects = std::make_shared<const FoundObjects>(objects_, resolved);
  if (objects->empty()) return {};
  InputFetcher fetcher;
  fetcher.fetch = [objects](const InputFetcher::Parts& wanted, InputFetcher::Trust trust,
                            const InputFetcher::Done& done) {
    return objects->Fetch(wanted, trust, done);
  };
  fetcher.release = [objects](uint64_t id) { objects->Release(id); };
  return fetcher;
}

}  // namespace bulkhead

#include "tools/validate/spec_report.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/os/process/process_usage.h"
#include "server/sampler/batch_plan.h"
#include "server/spec/batch_stages.h"
#include "server/spec/source_chain.h"
#include "server/spec/stage_signature.h"
#include "server/spec/yaml/yaml_tree.h"
#include "tools/common/near_path.h"
#include "tools/local/local_pipeline.h"

namespace bulkhead::tools {
namespace {

// The text of a file, or of standard input; at most one byte more than a spec may have.
absl::StatusOr<std::string> ReadText(const std::string& name) {
  if (IsObjectUrl(name)) return ReadSpecFile(name).status();
  std::ifstream file;
  if (name != "-") {
    file.open(name, std::ios::binary);
    if (!file) {
      return MakeError(absl::StatusCode::kNotFound, reason::kFileNotFound,
                       absl::StrCat(name, ": cannot be opened; ", NearPath(name)),
                       {{"file", name}});
    }
  }
  std::istream& stream = name == "-" ? std::cin : file;
  std::string text(kMaxYamlBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (stream.bad() || (text.empty() && !stream.eof())) {
    return MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                     absl::StrCat(name, ": cannot be read; is it a file?"), {{"file", name}});
  }
  return text;
}

// What the data of a spec file says.
absl::Status ExamineData(const std::string& name, const DataLook& look, SpecReport& report) {
  std::error_code ignored;
  const auto place = std::filesystem::absolute(name == "-" ? "." : name, ignored);
  const std::string folder = name == "-" ? place.string() : place.parent_path().string();
  if (look.count) {
    BULKHEAD_ASSIGN_OR_RETURN(report.counts, look.count(report.spec, folder));
    BatchPlan::Config plan;
    plan.samples_per_epoch = report.counts->whole.samples();
    plan.batch_size = report.spec.batch().size();
    plan.last = report.spec.batch().last();
    BULKHEAD_RETURN_IF_ERROR(BatchPlan(plan).Check());
  }
  if (!look.kept || report.caches.empty()) return absl::OkStatus();
  absl::StatusOr<KeptLook> kept = look.kept(report.spec, folder);
  // With several, it is unknown which of them kept what.
  if (kept.ok() && report.caches.size() > 1) {
    kept = absl::FailedPreconditionError("only one of a spec's cache stages can be");
  }
  const bool mixture = report.spec.source().has_mixture();
  for (CacheReport& cache : report.caches) {
    cache.look_status = kept.status();
    if (kept.ok()) cache.look = *kept;
    if (report.counts.has_value() && !mixture) cache.samples = report.counts->whole.samples();
  }
  return absl::OkStatus();
}

// Paths of the spec's data that are not there, with their place in the spec; a pattern is not
// looked at. `name` is the spec's file, from whose folder they start.
std::vector<std::string> MissingPaths(const std::string& name, const v1::PipelineSpec& spec) {
  const auto folder = std::filesystem::path(name == "-" ? "" : name).parent_path();
  std::vector<std::string> missing;
  const auto look = [&](const std::string& place, const std::string& path) {
    std::error_code error;
    if (path.empty() || path.find_first_of("*?[{") != std::string::npos) return;
    if (IsObjectUrl(path)) return;  // the service alone asks stores
    if (std::filesystem::exists(folder / path, error) || error) return;
    missing.push_back(absl::StrCat(place, ": ", path));
  };
  for (const SourceChain& chain : SourceChains(spec)) {
    const v1::Source& source = *chain.source;
    const std::string place = chain.path.empty() ? "source" : absl::StrCat(chain.path, ".source");
    look(place + ".image_folder.path", source.image_folder().path());
    look(place + ".image_list.path", source.image_list().path());
    for (const std::string& file : source.tfrecord().files()) look(place + ".tfrecord.files", file);
    for (const std::string& file : source.tar().files()) look(place + ".tar.files", file);
  }
  return missing;
}

}  // namespace

absl::StatusOr<SpecReport> ExamineSpec(const std::string& name, const DataLook& look) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::string text, ReadText(name));
  SpecReport report;
  BULKHEAD_ASSIGN_OR_RETURN(report.spec,
                            ParseSpec(text, name == "-" ? "stdin" : name, report.notes));
  BULKHEAD_ASSIGN_OR_RETURN(report.signature, InferSignature(report.spec));
  BULKHEAD_ASSIGN_OR_RETURN(report.memory, PlanMemory(report.signature, MemoryPlanOptions{}));
  std::set<std::string> named;  // the common stages are those of every source
  for (const SourceChain& chain : SourceChains(report.spec)) {
    for (const SourceChain::Step& step : chain.steps) {
      if (!IsRandomStage(*step.stage) || !named.insert(step.path).second) continue;
      report.random_stages.push_back(absl::StrCat(step.path, ".", StageName(*step.stage)));
    }
  }
  for (int i = 0; i < report.spec.batch_stages_size(); ++i) {
    const v1::BatchStage& stage = report.spec.batch_stages(i);
    if (!IsRandomBatchStage(stage)) continue;
    report.random_stages.push_back(absl::StrCat(BatchStagePath(i), ".", StageName(stage)));
  }
  report.caches = ReportCaches(report.spec, report.signature);
  BULKHEAD_RETURN_IF_ERROR(ExamineData(name, look, report));
  return report;
}

std::vector<std::string> Warnings(const std::string& name, const SpecReport& report) {
  std::vector<std::string> warnings = report.notes.warnings;
  for (const CacheReport& cache : report.caches) {
    if (const auto warning = CacheWarning(cache)) {
      warnings.push_back(absl::StrCat(name, ": warning: ", *warning));
    }
  }
  if (!report.counts.has_value()) {  // else all were found
    for (const std::string& path : MissingPaths(name, report.spec)) {
      warnings.push_back(
          absl::StrCat(name, ": warning: ", path, " does not exist on this machine"));
    }
  }
  const v1::MemoryPlan& plan = report.memory;
  if (plan.arena_bytes() + plan.sample_bytes() > MemoryLimitBytes()) {
    warnings.push_back(absl::StrCat(
        name, ": warning: batch.size: the arena takes ", plan.slot_count(), " slots x ",
        BytesText(plan.slot_bytes()), " = ", BytesText(plan.arena_bytes()),
        " and a sample in a worker up to ", BytesText(plan.sample_bytes()),
        ", but this machine has ", BytesText(MemoryLimitBytes()),
        "; make batches or images smaller, or max_bytes and max_count as small as the data allow"));
  }
  return warnings;
}

std::string PackingOf(const v1::TensorSchema& tensor) {
  if (tensor.packing() == v1::PACKING_UNSPECIFIED) return "samples";
  if (tensor.has_normalization()) return "normalized_by_client";
  return tensor.packing() == v1::PACKING_ROWS ? "rows" : "extents";
}

}  // namespace bulkhead::tools

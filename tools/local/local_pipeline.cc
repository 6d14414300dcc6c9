#include "tools/local/local_pipeline.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/os/files/filesystem.h"
#include "server/pipeline/make_pipeline.h"
#include "server/spec/yaml/yaml.h"
#include "server/spec/yaml/yaml_tree.h"
#include "tools/common/near_path.h"
#include "tools/local/find_progress.h"
#include "tools/local/own_run.h"

namespace bulkhead::tools {
namespace {

SpecSource SourceOf(const v1::PipelineSpec& spec, const std::string& path) {
  SpecSource source = SpecText(SpecToYaml(spec));
  source.base_dir = SpecFolder(path);
  return source;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalPipeline>> LocalPipeline::Create(const v1::PipelineSpec& spec,
                                                                     const std::string& base_dir,
                                                                     const LocalOptions& options) {
  std::unique_ptr<LocalPipeline> local(new LocalPipeline());
  BULKHEAD_ASSIGN_OR_RETURN(local->signature_, InferSignature(spec));
  BULKHEAD_ASSIGN_OR_RETURN(local->code_, LocalUserCode::Start(options.code, spec));
  if (options.confine) {
    BULKHEAD_ASSIGN_OR_RETURN(DataOfRun found, ReceiveData());
    local->code_.ConfineProcess(spec.source(), found.resolved);
    local->fetcher_ = std::move(found.fetcher);
    BULKHEAD_ASSIGN_OR_RETURN(local->data_, LocalData::OfFound(spec, std::move(found.resolved)));
  } else {
    BULKHEAD_ASSIGN_OR_RETURN(local->data_, LocalData::Create(spec, base_dir, ShowFinding()));
    const auto& objects = local->data_->found_objects();
    if (objects != nullptr) local->fetcher_ = FetchHere(objects);
  }
  BULKHEAD_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Source>> sources,
                            local->data_->OpenPlain());
  BULKHEAD_ASSIGN_OR_RETURN(
      local->pipeline_,
      MakePipeline(std::move(sources), spec, {options.fuse, local->code_.user_code()}));
  internal::v1::StreamBinding& binding = local->stream_.binding;
  *binding.mutable_schema() = local->signature_.schema;
  binding.set_seed(spec.seed());
  binding.set_samples_per_epoch(local->samples_per_epoch());
  binding.set_error_action(spec.errors().policy());
  // Measurements may read the data twice.
  binding.set_reads_again(true);
  // Owned by data_.
  local->stream_.order = {std::shared_ptr<void>(), &local->data_->order()};
  return local;
}

absl::StatusOr<v1::PipelineSpec> ReadSpecFile(const std::string& path) {
  if (IsObjectUrl(path)) {
    return MakeError(absl::StatusCode::kFailedPrecondition, reason::kFileUnreadable,
                     absl::StrCat(ShownUrl(path),
                                  ": a spec is read from this host only; copy it here, what it "
                                  "names may stay in the bucket"),
                     {{"file", ShownUrl(path)}});
  }
  const auto text = ReadPrefix(path, kMaxYamlBytes + 1);
  if (!text.ok()) {
    return MakeError(text.status().code(), reason::kFileUnreadable,
                     absl::StrCat(text.status().message(), "; ", NearPath(path)), {{"file", path}});
  }
  return ParseSpec(*text, path);
}

std::string SpecFolder(const std::string& path) {
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  const auto real = RealPath(folder);
  return real.ok() ? *real : folder;
}

SpecSource EndlessSpec(v1::PipelineSpec spec, const std::string& path) {
  spec.clear_epochs();
  return SourceOf(spec, path);
}

SpecSource SpecOfMoreEpochs(v1::PipelineSpec spec, uint64_t more, const std::string& path) {
  if (spec.has_epochs()) spec.set_epochs(spec.epochs() + more);
  return SourceOf(spec, path);
}

}  // namespace bulkhead::tools

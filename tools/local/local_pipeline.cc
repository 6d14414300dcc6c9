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
#include "tools/local/local_objects.h"

namespace bulkhead::tools {

absl::StatusOr<std::unique_ptr<LocalPipeline>> LocalPipeline::Create(const v1::PipelineSpec& spec,
                                                                     const std::string& base_dir,
                                                                     const LocalOptions& options) {
  BULKHEAD_RETURN_IF_ERROR(RefuseUrls(spec));
  std::unique_ptr<LocalPipeline> local(new LocalPipeline());
  BULKHEAD_ASSIGN_OR_RETURN(local->signature_, InferSignature(spec));
  BULKHEAD_ASSIGN_OR_RETURN(local->code_, LocalUserCode::Start(options.code, spec));
  BULKHEAD_ASSIGN_OR_RETURN(local->data_, LocalData::Create(
                                              spec, base_dir, [](const v1::Progress&) {},
                                              /*reads_objects=*/false));
  if (options.confine) {
    local->code_.ConfineProcess(spec.source(), local->data_->found().resolved);
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

absl::Status LocalPipeline::ProduceSample(uint64_t epoch, uint64_t position,
                                          PipelineContext& context,
                                          absl::Span<std::byte* const> destinations) const {
  return bulkhead::ProduceSample(*pipeline_, stream_, epoch, position, context, destinations);
}

absl::Status LocalPipeline::Produce(uint64_t epoch, uint64_t first_position, uint32_t count,
                                    PipelineContext& context, std::byte* batch) const {
  internal::v1::Lease lease;
  lease.set_epoch(epoch);
  lease.set_first_position(first_position);
  lease.set_count(count);
  std::vector<SubstitutedSample> substituted;
  uint64_t failed_position = 0;
  BULKHEAD_RETURN_IF_ERROR(
      ProduceLease(*pipeline_, stream_, lease, context, batch, substituted, failed_position));
  return FinishBatch(*pipeline_, stream_, lease, context, batch);
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

}  // namespace bulkhead::tools

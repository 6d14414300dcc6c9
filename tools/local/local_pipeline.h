#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bulkhead/loader.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/pipeline/pipeline.h"
#include "server/spec/signature.h"
#include "tools/local/local_data.h"
#include "tools/local/local_user_code.h"
#include "tools/local/parts_fetcher.h"

namespace bulkhead::tools {

// How a pipeline is run here.
struct LocalOptions {
  bool fuse = true;  // see PipelineOptions
  UserCodeOptions code;
  // Puts this process, which has one thread, into the sandbox of a worker for good before the data
  // are opened: for a process of RunAgain.
  bool confine = false;
};

// A spec's pipeline in this very process: no service, no worker, no quota. For measuring and for
// looking at data that their user trusts. Immutable; thread-safe, each thread brings a LocalThread,
// except with Python stages, for which there is one thread.
class LocalPipeline {
 public:
  // Indexes the data of `spec`, which is normalized, and opens it; with `confine` the data are
  // those that the process which started this one has found. Blocks. Relative paths start from
  // `base_dir`. Errors: those of LocalUserCode::Start, LocalData::Create and MakePipeline.
  static absl::StatusOr<std::unique_ptr<LocalPipeline>> Create(const v1::PipelineSpec& spec,
                                                               const std::string& base_dir,
                                                               const LocalOptions& options = {});

  const PipelineSignature& signature() const { return signature_; }
  const v1::BatchSchema& schema() const { return signature_.schema; }
  uint64_t samples_per_epoch() const { return data_->samples_per_epoch(); }
  uint64_t seed() const { return stream_.binding.seed(); }
  const Pipeline& pipeline() const { return *pipeline_; }
  const StreamView& stream() const { return stream_; }
  // Brings what the records are read from to this host; null: all are files.
  const std::shared_ptr<const PartsFetcher>& fetcher() const { return fetcher_; }

 private:
  LocalPipeline() = default;

  LocalUserCode code_;
  std::unique_ptr<LocalData> data_;
  std::shared_ptr<const PartsFetcher> fetcher_;
  PipelineSignature signature_;
  std::unique_ptr<Pipeline> pipeline_;
  StreamView stream_;
};

// Reads and normalizes the spec in `path`. Errors: FILE_UNREADABLE, SPEC_INVALID.
absl::StatusOr<v1::PipelineSpec> ReadSpecFile(const std::string& path);

// The folder from which relative paths in the spec `path` start.
std::string SpecFolder(const std::string& path);

// What the file at `path` held, made `spec`, as a stream without an end: however fast it is served,
// it lasts as long as the measurement.
SpecSource EndlessSpec(v1::PipelineSpec spec, const std::string& path);

// The same with so many epochs more than it says.
SpecSource SpecOfMoreEpochs(v1::PipelineSpec spec, uint64_t more, const std::string& path);

}  // namespace bulkhead::tools

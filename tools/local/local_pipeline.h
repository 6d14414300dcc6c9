#ifndef BULKHEAD_TOOLS_LOCAL_LOCAL_PIPELINE_H_
#define BULKHEAD_TOOLS_LOCAL_LOCAL_PIPELINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/pipeline/pipeline.h"
#include "server/spec/signature.h"
#include "tools/local/local_data.h"
#include "tools/local/local_user_code.h"

namespace bulkhead::tools {

// How a pipeline is run here.
struct LocalOptions {
  bool fuse = true;  // see PipelineOptions
  UserCodeOptions code;
  // Puts this process, which has one thread, into the sandbox of a worker for good as soon as the
  // data are indexed: for a process of RunAgain.
  bool confine = false;
};

// A spec's pipeline in this very process: no service, no worker, no quota. For measuring and for
// looking at data that their user trusts. Immutable; thread-safe, each thread brings a context,
// except with Python stages, for which there is one thread.
class LocalPipeline {
 public:
  // Indexes the data of `spec`, which is normalized, and opens it. Blocks. Relative paths start
  // from `base_dir`. Errors: those of RefuseUrls, LocalUserCode::Start, LocalData::Create and
  // MakePipeline.
  static absl::StatusOr<std::unique_ptr<LocalPipeline>> Create(const v1::PipelineSpec& spec,
                                                               const std::string& base_dir,
                                                               const LocalOptions& options = {});

  const PipelineSignature& signature() const { return signature_; }
  const v1::BatchSchema& schema() const { return signature_.schema; }
  uint64_t samples_per_epoch() const { return data_->samples_per_epoch(); }
  uint64_t seed() const { return stream_.binding.seed(); }
  const Pipeline& pipeline() const { return *pipeline_; }

  // Produces the sample at `position` of `epoch` alone, into one destination for each tensor,
  // without a substitute for a bad one. Errors: those of Pipeline::Produce.
  absl::Status ProduceSample(uint64_t epoch, uint64_t position, PipelineContext& context,
                             absl::Span<std::byte* const> destinations) const;

  // Produces a batch: the samples at `first_position` and the `count` − 1 positions after it,
  // which all belong to `epoch`, as sample 0, 1, … of a batch at `batch`, and what batch stages
  // make of it: schema().batch_bytes() for schema().batch_size() of them. Errors: those of
  // ProduceLease and FinishBatch.
  absl::Status Produce(uint64_t epoch, uint64_t first_position, uint32_t count,
                       PipelineContext& context, std::byte* batch) const;

 private:
  LocalPipeline() = default;

  LocalUserCode code_;
  std::unique_ptr<LocalData> data_;
  PipelineSignature signature_;
  std::unique_ptr<Pipeline> pipeline_;
  StreamView stream_;
};

// Reads and normalizes the spec in `path`. Errors: FILE_UNREADABLE, SPEC_INVALID.
absl::StatusOr<v1::PipelineSpec> ReadSpecFile(const std::string& path);

// The folder from which relative paths in the spec `path` start.
std::string SpecFolder(const std::string& path);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_LOCAL_LOCAL_PIPELINE_H_

#ifndef BULKHEAD_SERVER_PIPELINE_SAMPLE_MAKER_H_
#define BULKHEAD_SERVER_PIPELINE_SAMPLE_MAKER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/pipeline/pipeline_part.h"
#include "server/pipeline/record_reader.h"
#include "server/pipeline/staged_context.h"

namespace bulkhead {

// Makes one sample in a thread's context: reads the record, runs the stages of its part, writes the
// outputs. Holds nothing of a sample.
class SampleMaker {
 public:
  // `samples` counts those that were begun, of all threads.
  SampleMaker(const RecordReader& records, std::atomic<uint64_t>& samples, StagedContext& own)
      : records_(records), samples_(samples), own_(own) {}

  // As Pipeline::Produce, what the observer is told of the sample's begin and end left out.
  absl::Status Make(uint64_t record, const SampleKey& key,
                    absl::Span<std::byte* const> destinations);

 private:
  class Partners;
  struct Sample {
    const SampleKey& key;
    uint64_t record;  // within its source
    uint64_t samples_before;
    uint64_t record_of_all;
  };
  // How a sample goes on: with which stages, and from which of them.
  struct Way {
    const StagePlan* plan;
    size_t begin;
  };

  Sample NewSample(const PipelinePart& part, uint64_t record, const SampleKey& key);
  // Takes up the record at hand: the values are those before the way's first stage.
  Way BeginWay(const PipelinePart& part, const Sample& sample,
               absl::Span<std::byte* const> destinations);
  // The values as the source gives them.
  void BeginStages(const PipelinePart& part);
  // Has the values behind the cache stage found, or made and kept. False when they cannot be made:
  // then the sample is to be made without a cache, which decides what is wrong with it.
  bool MakeKept(const PipelinePart& part, const Sample& sample,
                absl::Span<std::byte* const> destinations);
  // Takes the values behind the cache stage from what is kept; false when that makes no sense.
  bool UseKept(const CachedPlan& cached);
  absl::Status RunStages(const StagePlan& plan, size_t begin, size_t end, const Sample& sample,
                         absl::Span<std::byte* const> destinations);
  absl::Status RunPartnered(const SampleStage& stage, const StageValues& values,
                            const StagePlan& plan, const Sample& sample, std::byte* target);
  // Has the sample of `record` made up to its stage with partners, and `use` its values there as
  // those of `plan`'s.
  absl::Status MakePartner(uint64_t record, const SampleKey& key, const StagePlan& plan,
                           absl::FunctionRef<absl::Status()> use);
  // What features are called `from` in the plan of one source, another calls `to`.
  void TakeValues(const std::vector<size_t>& from, const std::vector<size_t>& to);
  absl::Status WriteOutputs(const StagePlan& plan, absl::Span<std::byte* const> destinations);

  const RecordReader& records_;
  std::atomic<uint64_t>& samples_;
  StagedContext& own_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_SAMPLE_MAKER_H_

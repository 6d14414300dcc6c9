#pragma once

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
// outputs. Keeps no state between samples.
class SampleMaker {
 public:
  // `samples` counts the samples begun by all threads.
  SampleMaker(const RecordReader& records, std::atomic<uint64_t>& samples, StagedContext& own)
      : records_(records), samples_(samples), own_(own) {}

  // As Pipeline::Produce, but does not notify the observer of the sample's begin and end.
  absl::Status Make(uint64_t record, const SampleKey& key,
                    absl::Span<std::byte* const> destinations);

 private:
  struct Sample {
    const SampleKey& key;
    uint64_t record;  // within its source
    uint64_t samples_before;
    uint64_t record_of_all;
  };
  // The rest of a sample's way: a plan, and the stage to continue from.
  struct Way {
    const StagePlan* plan;
    size_t begin;
  };

  // Whether a later sample of the lease may have frames of `record`.
  bool HasFramesLater(uint64_t record) const;
  Sample NewSample(const PipelinePart& part, uint64_t record, const SampleKey& key);
  // Begins with the current record: the values are those before the first stage of the way.
  Way BeginWay(const PipelinePart& part, const Sample& sample,
               absl::Span<std::byte* const> destinations);
  // Sets the values to those of the source.
  void BeginStages(const PipelinePart& part);
  // Finds the values after the cache stage, or makes and keeps them. False if they cannot be made:
  // then the sample must be made without a cache, which decides its error.
  bool MakeKept(const PipelinePart& part, const Sample& sample,
                absl::Span<std::byte* const> destinations);
  // Sets the values after the cache stage to the kept ones; false if those are invalid.
  bool UseKept(const CachedPlan& cached);
  absl::Status RunStages(const StagePlan& plan, size_t begin, size_t end, const Sample& sample,
                         absl::Span<std::byte* const> destinations);
  absl::Status RunPartnered(const SampleStage& stage, const StageValues& values,
                            const StagePlan& plan, const Sample& sample, std::byte* target);
  // Makes the sample of `record` up to its stage with partners, and calls `use` with its values
  // there, in the places of those of `plan`.
  absl::Status MakePartner(uint64_t record, const SampleKey& key, const StagePlan& plan,
                           absl::FunctionRef<absl::Status()> use);
  // Pairs of features that are the same in the plans of two sources: numbered `from` in one, `to`
  // in the other.
  void TakeValues(const std::vector<size_t>& from, const std::vector<size_t>& to);
  absl::Status WriteOutputs(const StagePlan& plan, absl::Span<std::byte* const> destinations);

  const RecordReader& records_;
  std::atomic<uint64_t>& samples_;
  StagedContext& own_;
};

}  // namespace bulkhead

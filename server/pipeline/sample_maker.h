#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/pipeline/record_reader.h"
#include "server/pipeline/staged_context.h"

namespace bulkhead {

// Makes one sample in a thread's context: reads the record, runs the stages of its part, writes the
// outputs. `samples` counts the samples begun by all threads. As Pipeline::Produce, but does not
// notify the observer of the sample's begin and end.
absl::Status MakeSample(const RecordReader& records, std::atomic<uint64_t>& samples,
                        uint64_t record, const SampleKey& key, StagedContext& own,
                        absl::Span<std::byte* const> destinations);

}  // namespace bulkhead

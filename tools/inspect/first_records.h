#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/source/records/record_stream.h"
#include "tensorflow/example.pb.h"
#include "tools/inspect/inspected_data.h"

namespace bulkhead::tools {

using TakeExample = absl::FunctionRef<void(uint64_t offset,
                                           const ::bulkhead::tensorflow::SequenceExample& example)>;

// Calls `take` with the first `count` records of a TFRecord file or tar (ReadFirstSamples), which
// may be compressed, and their offsets in bytes, of the uncompressed data; with fewer where it
// ends. Takes at most 256 MiB for a record. Returns whether the file is compressed. Errors name
// path@offset: CORRUPT_RECORD for what is no record, or no tf.Example, and for a file without
// records; and those of InspectedFile::Read.
absl::StatusOr<bool> ReadFirstRecords(const InspectedFile& file, uint64_t count, TakeExample take);

// The next `size` bytes, fewer where the stream ends; memory is asked for as data arrive.
absl::StatusOr<std::string> ReadUpTo(uint64_t size, RecordStream& stream);

}  // namespace bulkhead::tools

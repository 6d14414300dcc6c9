#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/source/index/index_builder.h"

namespace bulkhead {

// Builds the RecordIndex of one TFRecord file (see BuildIndex). Walks its frames: both the length's
// checksum and that the frame lies within the file are verified, the data is passed over. A file
// cut at a record's end is a valid shorter file; cut anywhere else it is TRUNCATED_RECORD.
//
// The identity checksum is SHA-256 over length (u64) and stored data checksum (u32) of every
// record, the same however the file is compressed.
absl::StatusOr<uint64_t> BuildTfRecordIndex(const internal::v1::BuildIndex& request, int fd,
                                            const IndexProgressFn& progress);

}  // namespace bulkhead

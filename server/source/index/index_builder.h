#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"

namespace bulkhead {

// Called repeatedly while an index is built: records found, bytes of the file read.
using IndexProgressFn = std::function<void(uint64_t records, uint64_t bytes_done)>;

// Builds the record index of `request.file` (for inline lists: of request.source's entries), or, if
// the request has a selection, that of the file (see BuildSelection), and writes it to `fd`, an
// empty regular file, with the header last. Runs in a worker: the file's bytes are untrusted.
// Returns the number of records. Errors name file@offset or file:line: FILE_NOT_FOUND,
// FILE_UNREADABLE, FILE_EMPTY, CORRUPT_RECORD, TRUNCATED_RECORD (a record frame that is damaged
// hides the rest of its file), LIST_INVALID, NO_SAMPLES.
absl::StatusOr<uint64_t> BuildIndex(const internal::v1::BuildIndex& request, int fd,
                                    const IndexProgressFn& progress);

}  // namespace bulkhead

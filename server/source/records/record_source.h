#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/source/records/record_format.h"
#include "server/source/source.h"

namespace bulkhead {

// Longer records are refused before memory is asked for.
inline constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 30;

// OpenSource for files of records that have a RecordIndex each: the records of all files, one file
// after the other. A read is one pread (uncompressed), or at most about 4 MiB of decompression from
// a restart point; a context that reads on where it stopped goes on without one. `signatures`: the
// features that `format` gives.
absl::StatusOr<std::unique_ptr<Source>> OpenRecordSource(
    const v1::Source& source, const internal::v1::ResolvedSource& resolved,
    std::unique_ptr<const RecordFormat> format, std::vector<FeatureSignature> signatures);

}  // namespace bulkhead

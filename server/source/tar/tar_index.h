#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/source/index/index_builder.h"

namespace bulkhead {

// Builds the RecordIndex of one tar (see BuildIndex). Walks its headers, whose checksums are
// verified; the data are passed over. A record is a sample: it begins at the first header of its
// first member and reaches to that of the next sample, members without a key between them included.
//
// A tar has no checksum of its data, so the identity checksum is SHA-256 over name and size of
// every member, as it is of a folder of images.
absl::StatusOr<uint64_t> BuildTarIndex(const internal::v1::BuildIndex& request, int fd,
                                       const IndexProgressFn& progress);

}  // namespace bulkhead

#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/source/index/index_builder.h"

namespace bulkhead {

// Builds the index of an image folder (see BuildIndex): finds the images at any depth, ordered by
// the bytes of their relative paths. Hidden files and folders (".git") are skipped; symbolic links
// are followed. NO_SAMPLES if there is no class or no image; PATH_NOT_ALLOWED for a link that leads
// out of the roots. Of a folder of objects: the same of the table that the request has.
absl::StatusOr<uint64_t> BuildImageFolderIndex(const internal::v1::BuildIndex& request, int fd,
                                               const IndexProgressFn& progress);

}  // namespace bulkhead

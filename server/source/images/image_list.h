#ifndef BULKHEAD_SERVER_SOURCE_IMAGES_IMAGE_LIST_H_
#define BULKHEAD_SERVER_SOURCE_IMAGES_IMAGE_LIST_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/source/index/index_builder.h"

namespace bulkhead {

// Builds the index of an image list, from its file or from its entries (see BuildIndex): parses
// every line and looks up every image's size. LIST_INVALID names file:line; FILE_NOT_FOUND,
// FILE_UNREADABLE and PATH_NOT_ALLOWED of an image also name the line. With request.keep_malformed
// LIST_INVALID becomes a sample error of that line.
absl::StatusOr<uint64_t> BuildImageListIndex(const internal::v1::BuildIndex& request, int fd,
                                             const IndexProgressFn& progress);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SOURCE_IMAGES_IMAGE_LIST_H_

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/source/index/index_builder.h"

namespace bulkhead {

// Builds the index of an image list, from its file or from its entries (see BuildIndex): parses
// every line and looks up every image's size. LIST_INVALID names file:line; FILE_NOT_FOUND,
// FILE_UNREADABLE and PATH_NOT_ALLOWED of an image also name the line. With request.keep_malformed
// LIST_INVALID becomes a sample error of that line. NOT_FETCHED with metadata `urls`: the list
// names objects, and the request has no table of them; request.urls_only gives their URLs.
absl::StatusOr<uint64_t> BuildImageListIndex(const internal::v1::BuildIndex& request, int fd,
                                             const IndexProgressFn& progress);

// Where the relative paths of a list start: its folder, or the URL of it; `base_dir` for a list in
// the spec.
std::string FolderOfList(const internal::v1::ResolvedFile& list, const std::string& base_dir);

}  // namespace bulkhead

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead {

// The files that may be read: those under `roots` (resolved paths), or, with `unrestricted`, those
// that the user may read. With neither, none.
struct DataRoots {
  std::vector<std::string> roots;
  bool unrestricted = false;
};

// Finds the objects that match a URL (ObjectFetcher::Find); empty: URLs are refused.
using FindObjectsFn = std::function<absl::StatusOr<std::vector<internal::v1::ResolvedFile>>(
    const std::string& pattern)>;

// Finds the files of a source (not of a mixture): expands globs, resolves links, checks that every
// file lies under a root, notes sizes and times. Reads no contents. Relative paths start at
// `base_dir` (absolute, or empty for the first root). server/data/file_names.h defines names and
// order; an image folder is named by its last component, in messages only. Errors: NOT_FOUND
// (FILE_NOT_FOUND), PERMISSION_DENIED (PATH_NOT_ALLOWED, FILE_UNREADABLE), INVALID_ARGUMENT
// (SPEC_INVALID) for a file named twice, FAILED_PRECONDITION for a folder where a file is needed,
// or a file for a folder.
absl::StatusOr<internal::v1::ResolvedSource> ResolveSource(
    const v1::Source& source, const std::string& base_dir, const DataRoots& roots,
    const FindObjectsFn& find_objects = nullptr);

// The roots that user functions behind a range may read: the data roots, or "/" if unrestricted.
void AddRootsOfRange(const DataRoots& roots, internal::v1::ResolvedSource& resolved);

}  // namespace bulkhead

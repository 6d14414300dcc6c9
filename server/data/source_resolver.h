#ifndef BULKHEAD_SERVER_DATA_SOURCE_RESOLVER_H_
#define BULKHEAD_SERVER_DATA_SOURCE_RESOLVER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead {

// Which files may be read: whatever lies beneath `roots` (resolved paths), or, with `unrestricted`,
// whatever the user may read. With neither, nothing.
struct DataRoots {
  std::vector<std::string> roots;
  bool unrestricted = false;
};

// Finds the files of a source (of one, not of a mixture): expands globs, resolves symbolic
// links, checks that every file lies beneath a root, notes sizes and times. Reads names only, never
// contents. `base_dir` (absolute, or empty for the first root) is where relative paths start. Files
// are named and ordered as server/data/file_names.h says; an image folder is called by its last
// component, for messages alone. Errors: NOT_FOUND (FILE_NOT_FOUND), PERMISSION_DENIED
// (PATH_NOT_ALLOWED, FILE_UNREADABLE), INVALID_ARGUMENT (SPEC_INVALID) for a file that is named
// twice, FAILED_PRECONDITION for a folder where a file is needed, and the other way round.
absl::StatusOr<internal::v1::ResolvedSource> ResolveSource(const v1::Source& source,
                                                           const std::string& base_dir,
                                                           const DataRoots& roots);

// What functions of the user's behind a range may read: the data roots, "/" where all is allowed.
void AddRootsOfRange(const DataRoots& roots, internal::v1::ResolvedSource& resolved);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_DATA_SOURCE_RESOLVER_H_

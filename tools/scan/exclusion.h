#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "tools/scan/finding.h"

// Files that leave out what a scan of a spec has found. Each is checked before the scan; a Write
// returns what the user does with the file, and its error is FILE_UNREADABLE when it cannot be
// written.
namespace bulkhead::tools {

// Of an image list: the list without the bad lines, which goes into the list's own folder, where
// its relative paths start. Of other data: the names of the bad records, one a line, as `bulkhead
// quarantine add --from` reads them, and each bad file as a comment. Relative paths in the spec
// start from `base_dir`. INVALID_ARGUMENT when the list's copy would lie elsewhere, or over the
// list.
absl::Status CheckExclusion(const std::string& path, const v1::PipelineSpec& spec,
                            const std::string& base_dir);
absl::StatusOr<std::string> WriteExclusion(const std::string& path, const v1::PipelineSpec& spec,
                                           const std::string& base_dir,
                                           const std::vector<Finding>& findings);

// The spec of the file `spec_path` with the findings joining its `exclude`; it keeps its comments
// where a list can be written below it. What `exclude` cannot leave out, a malformed line of a list
// or a pattern that finds nothing, is told. INVALID_ARGUMENT unless `path` is another file in the
// folder of the spec, where the relative paths of both start.
absl::Status CheckGoodSpec(const std::string& path, const std::string& spec_path);
absl::StatusOr<std::string> WriteGoodSpec(const std::string& path, const std::string& spec_path,
                                          const v1::PipelineSpec& spec,
                                          const std::vector<Finding>& findings);

}  // namespace bulkhead::tools

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace bulkhead {

// Bounds of one expansion. Links that lead upwards make the number of paths grow without end.
struct GlobLimits {
  uint64_t paths = 300'000;       // that match, up to any component of the pattern
  uint64_t entries = 10'000'000;  // of folders, that are looked at
  // Matches of all expansions under way in this process; one with few goes on beside any number.
  uint64_t paths_of_all = 600'000;
  uint64_t few_paths = 10'000;
};

// Whether an expansion may look into `folder`, which need not exist; what is not OK ends it.
using MayEnterFn = std::function<absl::Status(const std::string& folder)>;

// Paths that match a shell pattern (`*`, `?`, `[…]`; a backslash takes the next character as it
// is), as glob(3) finds them, sorted by bytes, but that nothing matches "." and ".."; a path that
// exists as written matches itself. Empty when nothing matches. Blocks on the storage
// (storage_watch.h). Errors: PERMISSION_DENIED for a folder that cannot be read,
// FAILED_PRECONDITION for links in a circle, RESOURCE_EXHAUSTED above the limits, what `may_enter`
// says of a folder behind the first wildcard; it is asked again of what was opened there, so that a
// link that changes meanwhile shows no other folder.
absl::StatusOr<std::vector<std::string>> ExpandGlob(const std::string& pattern,
                                                    const GlobLimits& limits = {},
                                                    const MayEnterFn& may_enter = nullptr);

}  // namespace bulkhead

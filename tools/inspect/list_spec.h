#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tools/inspect/guess_spec.h"

namespace bulkhead::tools {

// The text of a spec that streams the image list `name`, a path or a URL, with all its labels; it
// is read from `path`. The lines of a short list whose paths do not stand first are in the spec
// itself, in another order. INVALID_ARGUMENT when no spec can read the list, with what to do; and
// the errors of ListSurvey::Of.
absl::StatusOr<std::string> ListSpec(const std::string& path, const std::string& name,
                                     const GuessOptions& options);

}  // namespace bulkhead::tools

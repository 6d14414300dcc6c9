#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/inspect/guess_spec.h"

namespace bulkhead::tools {

// The text of a spec that streams the TFRecord files or tars that `patterns` stand for, by what the
// first records of `first`, one of them, hold. INVALID_ARGUMENT when it cannot be told which
// feature is the image; and the errors of ReadFirstRecords. `others`: as GuessSpec.
absl::StatusOr<std::string> RecordSpec(const std::vector<std::string>& patterns,
                                       const InspectedFile& first, const GuessOptions& options,
                                       std::set<std::string>* others);

}  // namespace bulkhead::tools

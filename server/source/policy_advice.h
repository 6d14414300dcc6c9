#pragma once

#include "absl/strings/string_view.h"

namespace bulkhead {

// Parts of messages that say how a stream passes over records. A tool that reads each record takes
// them out.
inline constexpr absl::string_view kPassOverDamaged =
    ", or set errors.policy: substitute to pass over damaged records";
inline constexpr absl::string_view kPassOverMissing =
    ", and `errors: {policy: substitute}` takes others in place of missing images";

}  // namespace bulkhead

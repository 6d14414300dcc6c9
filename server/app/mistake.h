#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace bulkhead {

// INVALID_ARGUMENT, with the parts of its text: a mistake of whoever started the service.
template <typename... Parts>
absl::Status Mistake(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

}  // namespace bulkhead

#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace bulkhead {

// Writes `classes` float32 values to `out`: 1 at `label`, else 0. Sample error: LABEL_OUT_OF_RANGE
// when `label` is not in 0 … classes − 1.
absl::Status OneHotEncode(int64_t label, uint32_t classes, float* out);

}  // namespace bulkhead

#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/source/source.h"

namespace bulkhead {

// OpenSource for `range`: record i is the number i. Reads no file, and never fails.
absl::StatusOr<std::unique_ptr<Source>> OpenRangeSource(const v1::RangeSource& range,
                                                        std::vector<FeatureSignature> signatures);

}  // namespace bulkhead

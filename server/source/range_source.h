#ifndef BULKHEAD_SERVER_SOURCE_RANGE_SOURCE_H_
#define BULKHEAD_SERVER_SOURCE_RANGE_SOURCE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/source/source.h"

namespace bulkhead {

// OpenSource for `range`: record i is the number i. Reads no file, and never fails.
absl::StatusOr<std::unique_ptr<Source>> OpenRangeSource(const v1::RangeSource& range,
                                                        std::vector<FeatureSignature> signatures);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SOURCE_RANGE_SOURCE_H_

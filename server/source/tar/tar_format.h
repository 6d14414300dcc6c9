#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/source/records/record_format.h"

namespace bulkhead {

// Samples of tars: the members of one key, found by their headers, which are verified at every
// read. Members that no feature names are passed over.
//
// `signatures`: SourceFeatures' result for `features`. SPEC_INVALID when a key or a default is
// none. Sample errors of reads: CORRUPT_RECORD for damaged headers, MALFORMED_EXAMPLE also for two
// members of one ending, MISSING_FEATURE, WRONG_DTYPE, WRONG_SHAPE, OVER_BOUND.
absl::StatusOr<std::unique_ptr<const RecordFormat>> NewTarFormat(
    const std::vector<FeatureSignature>& signatures, const FeatureMap& features);

}  // namespace bulkhead

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/local/local_data.h"

namespace bulkhead::tools {

// The first element of the numeric feature `name` of each of `records`, which count through all
// sources of `data`; not a number where the record has an empty list. Blocks for files and object
// stores; tells `progress` how many were read. Errors: SPEC_INVALID when a source has no feature of
// that name, or it is not a number; those of LocalData::Open, Source::Read and of the store.
absl::StatusOr<std::vector<double>> ReadFeature(const LocalData& data, const std::string& name,
                                                const std::vector<uint64_t>& records,
                                                const FindProgressFn& progress);

}  // namespace bulkhead::tools

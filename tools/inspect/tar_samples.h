#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tools/inspect/first_records.h"

namespace bulkhead::tools {

// Whether a file is a tar, which may be compressed, by its name or its first bytes.
bool IsTar(const InspectedFile& file);

// ReadFirstRecords of a tar, which messages call `path`. Each sample comes as an Example that has
// what a spec can read of it by the keys of a spec: members by their endings, as numbers where they
// are numbers as text; values of JSON members as "json:size/width".
absl::StatusOr<bool> ReadFirstSamples(const DataFile& file, const std::string& path, uint64_t count,
                                      TakeExample take);

}  // namespace bulkhead::tools

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace bulkhead::tools {

// All bytes of a regular file of at most `most_bytes`, which the errors call `name`. Blocks.
// Errors: those of DataFile::Open; RESOURCE_EXHAUSTED for a larger file; FILE_CHANGED if it was
// written to meanwhile.
absl::StatusOr<std::string> ReadFileOf(const std::string& path, const std::string& name,
                                       uint64_t most_bytes);

}  // namespace bulkhead::tools

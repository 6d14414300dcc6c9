#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tools/common/tensor_image.h"

namespace bulkhead::tools {

// The first `samples` images side by side as one PNG, row by row, as many as fit 32 megapixels.
// Needs LooksLikeImages and samples ≥ 1.
absl::StatusOr<std::string> ContactSheetPng(const Tensor& tensor, uint64_t samples);

}  // namespace bulkhead::tools

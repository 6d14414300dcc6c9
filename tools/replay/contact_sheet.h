#ifndef BULKHEAD_TOOLS_REPLAY_CONTACT_SHEET_H_
#define BULKHEAD_TOOLS_REPLAY_CONTACT_SHEET_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "bulkhead/batch.h"

namespace bulkhead::tools {

// Whether a tensor's samples look like images: [height, width, channels] or [channels, height,
// width] with 1 or 3 channels (4 only last), of uint8, or of floats.
bool LooksLikeImages(const Tensor& tensor);

// The first `samples` images side by side as one PNG, row by row, as many as fit 32 megapixels.
// Floats are stretched so that the smallest is black and the largest white, over all of them: a
// picture to look at, not to compute with. Needs LooksLikeImages and samples ≥ 1.
absl::StatusOr<std::string> ContactSheetPng(const Tensor& tensor, uint64_t samples);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_REPLAY_CONTACT_SHEET_H_

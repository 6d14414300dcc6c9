#pragma once

#include "absl/strings/string_view.h"
#include "tools/synth/dataset.h"

namespace bulkhead::tools {

inline constexpr int kMinSide = 16;
inline constexpr int kMaxSide = 16384;

// Reads "640x480" or "320x240..640x480" (smallest to largest width and height). False, and `size`
// untouched, when it is neither.
bool ParseSizeRange(absl::string_view text, SizeRange& size);

}  // namespace bulkhead::tools

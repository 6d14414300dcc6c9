#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace bulkhead::jpeg {

// Why a file, or one decode of it, goes to libjpeg-turbo instead of this folder's decoder. None of
// these is a verdict: libjpeg-turbo says whether the file is good.
enum class Fallback {
  kNone,         // decoded here
  kForced,       // BULKHEAD_JPEG=libjpeg, or a test
  kOptions,      // scaled, fast DCT, plain upsampling
  kTruncated,    // ends early, and may
  kProgressive,  // or hierarchical, lossless, arithmetic: neither SOF0 nor SOF1
  kPrecision,    // not 8 bits a sample
  kComponents,   // neither one nor three
  kScans,        // several, or one that does not hold all components as a sequential scan does
  kSampling,     // factors other than 4:4:4, 4:2:2, 4:4:0, 4:2:0 and 4:1:1
  kColorSpace,   // stored as RGB, or an unknown Adobe transform
  kTables,       // a Huffman or quantization table that is missing, malformed or out of bounds
  kSegments,     // a segment of an unknown kind or an odd length
  kSize,         // too narrow to be upsampled smoothly, or wider than libjpeg takes
  kData,         // something odd in the entropy-coded data: a bad code, data running out, …
  kCoefficient,  // a coefficient so large that decoders differ
};
inline constexpr size_t kFallbackCount = static_cast<size_t>(Fallback::kCoefficient) + 1;

// In snake case, for metrics and reports.
absl::string_view FallbackName(Fallback reason);

// Counts of decodes: [kNone] by this folder's decoder, the others by libjpeg-turbo for that reason.
using FallbackCounts = std::array<uint64_t, kFallbackCount>;

}  // namespace bulkhead::jpeg

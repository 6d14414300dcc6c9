#pragma once

namespace bulkhead {

enum class DctMethod { kIslow, kIfast };

// How JPEG files are decoded; other formats ignore these options. A plain value.
struct DecodeOptions {
  // Share of its rows that a file which ends early must have; 0: such a file is refused.
  double accept_truncated = 0;
  // Interpolate subsampled chroma rather than repeat it.
  bool fancy_upsampling = true;
  DctMethod dct = DctMethod::kIslow;
  // 1, 2, 4 or 8: the divisor of both extents, which are rounded up.
  int scale = 1;
};

}  // namespace bulkhead

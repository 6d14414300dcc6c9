#pragma once

namespace bulkhead {

// What a decoder delivers for each pixel, uint8 each. Gray comes from the decoder: of a JPEG the
// luma itself, else a weighted sum of red, green and blue. Alpha is 255 where the file has none.
enum class PixelFormat { kRgb, kBgr, kGray, kRgba };

inline int ChannelCount(PixelFormat format) {
  return format == PixelFormat::kGray ? 1 : format == PixelFormat::kRgba ? 4 : 3;
}

}  // namespace bulkhead

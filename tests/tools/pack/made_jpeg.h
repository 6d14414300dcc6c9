#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "server/image/codecs/encode.h"

namespace bulkhead::tools {

// A dark JPEG with a bright rectangle.
inline std::string MadeJpeg(ImageSize size, const Rect& bright = {}) {
  std::vector<uint8_t> pixels(static_cast<size_t>(size.height) * size.width * 3, 20);
  const MutableImageView image = ContiguousImage(pixels.data(), size, 3);
  for (int y = bright.top; y < bright.bottom(); ++y) {
    std::fill_n(image.row(y) + bright.left * 3, bright.width * 3, 220);
  }
  return EncodeJpeg(image, {}).value();
}

// The same with an EXIF orientation, which stands in a segment of its own behind the first marker.
inline std::string MadeTurnedJpeg(ImageSize size, int orientation, const Rect& bright = {}) {
  std::string exif("Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 25);
  exif += static_cast<char>(orientation);
  exif += std::string(6, '\0');
  std::string segment = {'\xff', '\xe1', '\0', static_cast<char>(exif.size() + 2)};
  return MadeJpeg(size, bright).insert(2, segment + exif);
}

}  // namespace bulkhead::tools

#include "server/image/geometry/concat.h"

#include <cstring>

namespace bulkhead {

void CopyIntoChannels(const ImageView& in, int first_channel, const MutableImageView& out) {
  const int width = in.width;
  const int channels = in.channels;
  const int pixel_bytes = out.channels;
  for (int y = 0; y < in.height; ++y) {
    const uint8_t* from = in.row(y);
    uint8_t* to = out.row(y) + first_channel;
    for (int x = 0; x < width; ++x, from += channels, to += pixel_bytes) {
      if (channels == 3) {
        std::memcpy(to, from, 3);
      } else {
        for (int c = 0; c < channels; ++c) to[c] = from[c];
      }
    }
  }
}

}  // namespace bulkhead

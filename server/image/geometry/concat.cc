#include "server/image/geometry/concat.h"

namespace bulkhead {

void CopyIntoChannels(const ImageView& in, int first_channel, const MutableImageView& out) {
  for (int y = 0; y < in.height; ++y) {
    const uint8_t* from = in.row(y);
    uint8_t* to = out.row(y) + first_channel;
    for (int x = 0; x < in.width; ++x, to += out.channels) {
      for (int c = 0; c < in.channels; ++c) to[c] = *from++;
    }
  }
}

}  // namespace bulkhead

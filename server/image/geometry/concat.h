#pragma once

#include "server/image/image.h"

namespace bulkhead {

// Copies `in` into the channels of `out` from `first_channel` on; both have the same size, and
// `out` has at least that many channels more than `first_channel`.
void CopyIntoChannels(const ImageView& in, int first_channel, const MutableImageView& out);

}  // namespace bulkhead

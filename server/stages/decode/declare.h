#pragma once

#include <cstdint>

#include "bulkhead/v1/stages.pb.h"

namespace bulkhead {

// The default of decode_image's max_pixels.
inline constexpr uint64_t kDefaultMaxPixels = 36'000'000;

// The channels of decode_image's result: 1, 3 or 4, by `color`, else by `channels`, else 3.
int64_t DecodedChannels(const v1::DecodeImage& decode);

}  // namespace bulkhead

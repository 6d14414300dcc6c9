#ifndef BULKHEAD_SERVER_STAGES_DECODE_DECLARE_H_
#define BULKHEAD_SERVER_STAGES_DECODE_DECLARE_H_

#include <cstdint>

#include "bulkhead/v1/stages.pb.h"

namespace bulkhead {

// Pixels that decode_image accepts where the spec does not say.
inline constexpr uint64_t kDefaultMaxPixels = 36'000'000;

// Channels that decode_image gives: 1, 3 or 4, from `color`, else from `channels`, else 3.
int64_t DecodedChannels(const v1::DecodeImage& decode);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_STAGES_DECODE_DECLARE_H_

#pragma once

#include <cstddef>

#include "server/source/records/inflate_stream.h"

namespace bulkhead {

// A restart point as it lies in the payload of a RecordIndex: output offset, input offset, bits,
// window size, and the window in a field of fixed width. A multiple of 8 bytes.
inline constexpr size_t kStoredRestartBytes = 24 + RestartPoint::kMaxWindowBytes;
// The end of the payload: u64 restart count, u32 compression, u32 zero.
inline constexpr size_t kIndexFooterBytes = 16;

}  // namespace bulkhead

#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "server/base/checksum.h"
#include "server/base/little_endian.h"

namespace bulkhead {

// A TFRecord frame (TensorFlow, tsl/lib/io/record_writer.h): u64 length, u32 masked CRC32C of those
// 8 bytes, `length` bytes of data, u32 masked CRC32C of the data; little-endian.
inline constexpr size_t kFrameHeaderBytes = 12;
inline constexpr size_t kFrameFooterBytes = 4;
inline constexpr size_t kFrameBytes = kFrameHeaderBytes + kFrameFooterBytes;
// Whether the header at `header` (12 bytes) carries the checksum of its length.
inline bool FrameHeaderIsValid(const char* header) {
  return LoadLittle<uint32_t>(header + 8) == MaskCrc32c(Crc32c(absl::string_view(header, 8)));
}

// Whether `head`, the first bytes of a file, begin with a frame.
inline bool BeginsTfRecords(absl::string_view head) {
  return head.size() >= kFrameHeaderBytes && FrameHeaderIsValid(head.data());
}

}  // namespace bulkhead

#ifndef BULKHEAD_SERVER_BLOCKS_FILE_BYTES_H_
#define BULKHEAD_SERVER_BLOCKS_FILE_BYTES_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// Reads `size` bytes at `offset`; false if there are fewer, or the disk fails. Blocks for it.
bool ReadFileBytes(int fd, uint64_t offset, char* to, size_t size);

// Writes all of `bytes` at `offset`. Blocks for the disk; RESOURCE_EXHAUSTED if it is full.
absl::Status WriteFileBytes(int fd, uint64_t offset, absl::string_view bytes);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_BLOCKS_FILE_BYTES_H_

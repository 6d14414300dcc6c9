#pragma once

#include "server/blocks/object_blocks.h"

namespace bulkhead {

// Writes a whole block at once.
inline absl::Status WriteBlock(ObjectBlocks& blocks, uint64_t block, absl::string_view bytes) {
  if (bytes.size() != blocks.BytesOf(block)) return absl::InternalError("a block of another size");
  ObjectBlocks::Part part;
  return blocks.WritePart(block, part, bytes);
}

}  // namespace bulkhead

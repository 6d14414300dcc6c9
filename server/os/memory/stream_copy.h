#pragma once

#include <cstddef>
#include <vector>

namespace bulkhead {

// Copies `bytes` bytes to each of several places, which overlap nothing. The source is read once
// for all of them, and where the processor can, the copies go past its caches: they are large, and
// another core reads them. All addresses must be multiples of 16. Thread-safe; blocks for the copy.
void CopyToEach(const std::vector<std::byte*>& to, const std::byte* from, size_t bytes);

}  // namespace bulkhead

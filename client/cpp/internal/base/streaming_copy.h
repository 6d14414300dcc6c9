#pragma once

#include <cstddef>

namespace bulkhead::client_internal {

// std::memcpy for a batch's bytes, which are not read soon. A batch is larger than the caches, so
// on x86-64 the stores bypass them: an ordinary copy would first read the memory that it
// overwrites. A lock or an atomic makes the bytes visible to other threads, as after an ordinary
// copy.
void StreamingCopy(void* destination, const void* source, size_t count);

}  // namespace bulkhead::client_internal

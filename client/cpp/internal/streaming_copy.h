#ifndef BULKHEAD_CLIENT_CPP_INTERNAL_STREAMING_COPY_H_
#define BULKHEAD_CLIENT_CPP_INTERNAL_STREAMING_COPY_H_

#include <cstddef>

namespace bulkhead::client_internal {

// std::memcpy for a batch's bytes, which are not read soon: a batch is larger than the caches, so
// on x86-64 the destination is written past them. An ordinary copy would first read from memory
// what it is about to overwrite. What was written is visible to every thread that is told of it
// in the usual ways.
void StreamingCopy(void* destination, const void* source, size_t count);

}  // namespace bulkhead::client_internal

#endif  // BULKHEAD_CLIENT_CPP_INTERNAL_STREAMING_COPY_H_

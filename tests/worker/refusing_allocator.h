// An allocator below that of the workers, for tests of what becomes of a worker when memory is
// refused. A program that links this has glibc's own malloc, calloc, realloc and memalign, and the
// mmap system call of the tracker, wrapped (bulkhead_refusing_allocator in CMakeLists.txt).
#pragma once

#include <cstdint>

namespace bulkhead {

// The nth allocation, or mapping of private memory, from now on, by whichever thread, is refused.
void RefuseAllocation(uint64_t nth);
// How many are left until then.
uint64_t LeftUntilRefusal();

}  // namespace bulkhead

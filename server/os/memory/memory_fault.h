#pragma once

#include <cstdint>

namespace bulkhead {

// An access to mapped memory that this process may not access in that way.
struct MemoryFault {
  enum class Access { kUnknown, kRead, kWrite };
  uintptr_t address = 0;
  Access access = Access::kUnknown;
};

// From now on calls `note` at every such access, in a signal handler of the accessing thread:
// `note` may take no locks and allocate nothing. Then the usual consequence follows, normally the
// process's end by SIGSEGV. Call it once.
void NoteMemoryFaults(void (*note)(const MemoryFault& fault));

}  // namespace bulkhead

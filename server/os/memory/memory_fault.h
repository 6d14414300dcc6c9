#ifndef BULKHEAD_SERVER_OS_MEMORY_MEMORY_FAULT_H_
#define BULKHEAD_SERVER_OS_MEMORY_MEMORY_FAULT_H_

#include <cstdint>

namespace bulkhead {

// An access to memory that is mapped, but not for this process to touch in that way.
struct MemoryFault {
  enum class Access { kUnknown, kRead, kWrite };
  uintptr_t address = 0;
  Access access = Access::kUnknown;
};

// From now on `note` is called at every such access of this process, by the thread that made it,
// inside a signal handler: it may use no locks and allocate nothing. What would have happened
// without it happens next, as a rule the process's end by SIGSEGV. To be called once.
void NoteMemoryFaults(void (*note)(const MemoryFault& fault));

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_MEMORY_MEMORY_FAULT_H_

#ifndef BULKHEAD_SERVER_WORKER_ALLOCATION_TRACKER_H_
#define BULKHEAD_SERVER_WORKER_ALLOCATION_TRACKER_H_

#include <cstdint>

#include "server/worker/allocation_watch.h"

namespace bulkhead {

// Counts what each stage of the pipeline holds and how often it allocated, and ends the process
// when memory is refused. A program that links this library has its malloc, calloc, realloc, free,
// aligned_alloc, posix_memalign, memalign and malloc_usable_size, and its mmap, munmap and mremap,
// replaced, for itself and for every library it loads. operator new and delete go through malloc.
//
//     |······· glibc's block, as large as malloc_usable_size says ·······|
//     | what was asked for, and a rest | stage and seal, the last 8 bytes |
//
// A block is counted for the stage (CurrentStage) of the thread that allocates it, with its usable
// size, and taken off that stage by whatever thread frees it. The seal is made of the block's
// address: a block that was allocated otherwise, before Start, say, is seen to be none of ours. A
// thread adds to its own counters without read-modify-write; threads without counters of their own
// share some. Private, writable, anonymous mmaps that a library makes are counted in the same way;
// glibc's own, for large blocks and stacks, do not pass here. Not counted: the stacks, and pages
// that were reserved first and made writable later.
//
// No locks but in mmap; nothing is allocated. In a forked child nothing is counted, and nothing
// ends.
class AllocationTracker final : public AllocationWatch {
 public:
  // Begins to count; for the first lines of main. Where the C library's blocks do not look as
  // expected it counts nothing, ever. Returns the process's only tracker.
  static AllocationTracker& Start();

  void Attach(const FlightRecorder& recorder, bool attribution) override;
  void EndOnRefusal() override;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_WORKER_ALLOCATION_TRACKER_H_

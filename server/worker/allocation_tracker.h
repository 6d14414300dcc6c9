#pragma once

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
// size, and subtracted from that stage by whichever thread frees it. The seal is computed from the
// block's address, so that blocks which were not allocated here, for example before Start, are
// recognized. A thread adds to its own counters without read-modify-write; threads without counters
// of their own share some. Private, writable, anonymous mmaps of libraries are counted in the same
// way; glibc's own, for large blocks and stacks, do not call this mmap. Not counted: the stacks,
// and pages that were reserved first and made writable later.
//
// Takes no locks except in mmap, and allocates nothing. In a forked child nothing is counted, and
// nothing ends.
class AllocationTracker final : public AllocationWatch {
 public:
  // Begins to count; for the first lines of main. If the C library's blocks do not look as
  // expected, it never counts anything. Returns the process's only tracker.
  static AllocationTracker& Start();

  void Attach(const FlightRecorder& recorder, bool attribution) override;
  void EndOnRefusal() override;
};

}  // namespace bulkhead

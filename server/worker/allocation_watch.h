#pragma once

namespace bulkhead {

class FlightRecorder;

// The interface to the counting of a worker's allocations: an AllocationTracker in bulkhead-worker;
// none in programs that do not link one. An interface, because the library of workers cannot name
// the tracker: the tracker replaces malloc in whatever links it, and in Python workers is in a
// library of its own, which is loaded before all others.
class AllocationWatch {
 public:
  virtual ~AllocationWatch() = default;

  // Sends counts to `recorder` from now on; it must outlive the process's threads. Without
  // `attribution` stops counting. Call it while there is only one thread.
  virtual void Attach(const FlightRecorder& recorder, bool attribution) = 0;
  // From now on, an allocation that the kernel refuses ends the process with kExitOutOfMemory,
  // after its stage was noted.
  virtual void EndOnRefusal() = 0;
};

}  // namespace bulkhead

#ifndef BULKHEAD_SERVER_WORKER_ALLOCATION_WATCH_H_
#define BULKHEAD_SERVER_WORKER_ALLOCATION_WATCH_H_

#include "server/arena/flight_recorder.h"

namespace bulkhead {

// What a worker reports to a watcher of its allocations. bulkhead-worker has an AllocationTracker;
// programs that link none run without.
class AllocationWatch {
 public:
  virtual ~AllocationWatch() = default;

  // Counts go to `recorder`, which must outlive the process's threads, from now on; or, without
  // `attribution`, nothing is counted any more. To be called while there is one thread only.
  virtual void Attach(const FlightRecorder& recorder, bool attribution) = 0;
  // From now on an allocation that the kernel refuses ends the process with kExitOutOfMemory,
  // for any caller, after its stage was noted.
  virtual void EndOnRefusal() = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_WORKER_ALLOCATION_WATCH_H_

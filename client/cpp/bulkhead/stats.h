#ifndef BULKHEAD_CLIENT_CPP_BULKHEAD_STATS_H_
#define BULKHEAD_CLIENT_CPP_BULKHEAD_STATS_H_

#include <cstdint>

namespace bulkhead {

// What a loader did so far: Loader::stats(). Names and units are those of the Python client's
// Loader.stats. The first five count since the loader was opened, over all reconnects; of all
// threads that call Next together.
struct LoaderStats {
  uint64_t batches = 0;        // handed out
  uint64_t samples = 0;        // genuine ones in them; what pads a last batch is not counted
  uint64_t bytes = 0;          // of their tensors
  double wait_seconds = 0;     // that Next took, whatever it returned
  uint64_t reconnects = 0;     // lost services that the loader went on after
  uint64_t ready_batches = 0;  // now: arrived and not handed out; 0 once the loader is closed
  // Now: slots of the stream's shared memory whose batches the program has not destroyed; 0 over
  // gRPC, and once the loader is closed.
  uint64_t held_slots = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_CLIENT_CPP_BULKHEAD_STATS_H_

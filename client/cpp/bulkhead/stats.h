#ifndef BULKHEAD_CLIENT_CPP_BULKHEAD_STATS_H_
#define BULKHEAD_CLIENT_CPP_BULKHEAD_STATS_H_

#include <cstdint>
#include <string>
#include <vector>

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

// One loader's stats, and what tells them from those of others.
struct LabelledStats {
  std::string loader;  // any name
  uint32_t rank = 0;
  LoaderStats stats;
};

// Prometheus's text format, version 0.0.4, for whatever serves it: bulkhead_client_batches_total
// and so on, under the names that the Python client's metrics_text() has, labelled loader and rank.
// No two of `loaders` may have both alike.
std::string MetricsText(const std::vector<LabelledStats>& loaders);

}  // namespace bulkhead

#endif  // BULKHEAD_CLIENT_CPP_BULKHEAD_STATS_H_

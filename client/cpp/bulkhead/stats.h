#ifndef BULKHEAD_CLIENT_CPP_BULKHEAD_STATS_H_
#define BULKHEAD_CLIENT_CPP_BULKHEAD_STATS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace bulkhead {

// What a loader did so far: Loader::stats(). Names and units are those of the Python client's
// Loader.stats. The first five count since the loader was opened, over all reconnects and all
// threads that call Next.
struct LoaderStats {
  uint64_t batches = 0;        // handed out
  uint64_t samples = 0;        // in them, without the padding of a last batch
  uint64_t bytes = 0;          // of their tensors
  double wait_seconds = 0;     // spent in Next, whatever it returned
  uint64_t reconnects = 0;     // lost services after which the loader went on
  uint64_t ready_batches = 0;  // now: arrived and not handed out; 0 once the loader is closed
  // Now: slots of the stream's shared memory whose batches the program has not destroyed; 0 over
  // gRPC, and once the loader is closed.
  uint64_t held_slots = 0;
};

// One loader's stats, with their labels.
struct LabelledStats {
  std::string loader;  // any name
  uint32_t rank = 0;
  LoaderStats stats;
};

// Prometheus's text format, version 0.0.4, for any HTTP server: bulkhead_client_batches_total and
// so on, with the names of the Python client's metrics_text(), labelled loader and rank. No two of
// `loaders` may have the same loader and rank.
std::string MetricsText(const std::vector<LabelledStats>& loaders);

}  // namespace bulkhead

#endif  // BULKHEAD_CLIENT_CPP_BULKHEAD_STATS_H_

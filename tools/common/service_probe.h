#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead::tools {

// What a stream takes in its service: the highest values that were seen.
struct ServiceUse {
  uint64_t supervisor_memory_bytes = 0;
  uint64_t workers_memory_bytes = 0;  // the peaks of the pipeline's living workers together
  uint64_t worker_memory_bytes = 0;   // of a single one
  uint64_t arena_bytes = 0;
  uint64_t leases_redone = 0;  // of the whole service
  double cpu_seconds = 0;      // of the whole service, since the probe's start

  // Whether the service has answered; it does not answer a client without the right `status`.
  bool is_known() const { return supervisor_memory_bytes > 0; }
};

// Counts an answer of the service into `use`. Workers count when they belong to `pipeline`, which
// is learned from the stream called `stream` and stays known when that stream is over. While it is
// not known, all workers of streams count, but only until it is.
void CountStatus(const v1::GetStatusResponse& status, const std::string& stream,
                 std::string& pipeline, ServiceUse& use);

// Asks a service now and then what one of its streams takes. Not thread-safe.
class ServiceProbe {
 public:
  // `cpu_before`: CPU seconds of the service that do not count. Without `may_ask` the service gives
  // no right to its status, and is not asked.
  ServiceProbe(std::string target, std::string stream, double cpu_before, bool may_ask = true);

  // A service that does not answer leaves everything as it was: the stream itself says what is
  // wrong. Blocks for the answer.
  void Poll();
  void PollWhenDue();

  const ServiceUse& use() const { return use_; }

 private:
  const std::string target_;
  const std::string stream_;
  const double cpu_before_;
  const bool may_ask_;
  std::string pipeline_;
  ServiceUse use_;
  absl::Time last_ = absl::InfinitePast();
};

}  // namespace bulkhead::tools

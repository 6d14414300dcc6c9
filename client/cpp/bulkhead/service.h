// Questions to a running service, for tools and monitors.
#ifndef BULKHEAD_CLIENT_CPP_BULKHEAD_SERVICE_H_
#define BULKHEAD_CLIENT_CPP_BULKHEAD_SERVICE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bulkhead/credentials.h"
#include "bulkhead/loader.h"

namespace bulkhead {

struct WorkerInfo {
  int64_t pid = 0;
  std::string role;   // "pipeline" or "index"
  std::string state;  // "busy" and the like
  uint32_t threads = 0;
  uint64_t memory_bytes = 0;
  uint64_t peak_memory_bytes = 0;
  uint64_t quota_bytes = 0;
  double cpu_seconds = 0;
  uint64_t samples = 0;
};

// What a service is doing and what it takes.
struct ServiceStatus {
  std::string version;
  std::string boot_id;
  int64_t pid = 0;
  uint64_t supervisor_memory_bytes = 0;  // without arenas
  uint64_t supervisor_peak_memory_bytes = 0;
  uint64_t workers_memory_bytes = 0;      // all living workers together
  uint64_t worker_peak_memory_bytes = 0;  // the highest of any single worker, dead ones included
  uint64_t arena_bytes = 0;               // of all streams
  double cpu_seconds = 0;                 // supervisor and all workers, living and dead
  uint64_t samples_produced = 0;
  uint64_t samples_substituted = 0;
  uint64_t leases_redone = 0;
  uint64_t worker_exits = 0;  // recent ones
  std::vector<WorkerInfo> workers;
};

// Functions that take a `target` and Credentials fail with ACCESS_DENIED where the service gives
// these credentials no right to the call.
absl::StatusOr<ServiceStatus> GetServiceStatus(const std::string& target, absl::Duration deadline,
                                               const Credentials& credentials = {});

// All of the service's answer, as one line of JSON. With `fresh_memory` the memory of its processes
// is read anew, which takes the service some 15 ms for each GiB.
absl::StatusOr<std::string> GetStatusJson(const std::string& target, absl::Duration deadline,
                                          const Credentials& credentials = {},
                                          bool fresh_memory = false);

// OK if the service at `target` serves (gRPC's health check of bulkhead.v1.Loader). UNAVAILABLE
// (SERVICE_UNAVAILABLE) if it answers that it does not; DEADLINE_EXCEEDED or UNAVAILABLE
// (SERVICE_UNAVAILABLE) if it does not answer within `deadline`. Over TLS the client needs some
// right.
absl::Status CheckHealth(const std::string& target, absl::Duration deadline,
                         const Credentials& credentials = {});

// A record that a service keeps from its workers.
struct QuarantinedRecord {
  std::string record;
  absl::Time time;     // when it was added
  std::string reason;  // "crashed in stages[0] decode_image", "by hand"
  uint32_t deaths = 0;
};

enum class QuarantineAction {
  kList,
  kAdd,    // by hand, for every pipeline; in force for streams that open from then on
  kClear,  // without records: all
};

// Lists or changes what a service keeps in quarantine; returns what is there after that. Errors of
// the service: QUARANTINE_FULL, INVALID_ARGUMENT.
absl::StatusOr<std::vector<QuarantinedRecord>> Quarantine(const std::string& target,
                                                          QuarantineAction action,
                                                          const std::vector<std::string>& records,
                                                          absl::Duration deadline,
                                                          const Credentials& credentials = {});

// Replaces a service's workers by fresh ones, one after another, without a gap in its streams:
// those of the pipeline with that name (empty: of all), or the one in `slot` of each. Returns how
// many are being replaced, at once, not when they are.
absl::StatusOr<uint32_t> RecycleWorkers(const std::string& target, const std::string& pipeline,
                                        std::optional<uint32_t> slot, absl::Duration deadline,
                                        const Credentials& credentials = {});

struct TraceOptions {
  absl::Duration duration = absl::Seconds(5);  // at most 60 s
  std::string stream;                          // only streams with this name; empty: all
};

// What a service does from now on, for so long: leases, stages, batches and waits on one time line.
// Blocks, and calls `on_part` with each part as it comes, a serialized bulkhead.v1.TraceResponse;
// ends early once that returns false. RESOURCE_EXHAUSTED (TOO_MANY_CALLS) while the service is
// being traced already.
absl::Status TraceService(const std::string& target, const TraceOptions& options,
                          const std::function<bool(const std::string& part)>& on_part,
                          const Credentials& credentials = {});

// What a spec will deliver, without a stream.
struct SpecDescription {
  std::vector<TensorInfo> tensors;
  uint64_t batch_size = 0;
  uint64_t batch_bytes = 0;
  std::optional<uint64_t> samples_per_epoch;
  std::optional<uint64_t> batches_per_epoch;
  std::string order_fingerprint;
  std::string bytes_fingerprint;
  StreamMemory memory;
  std::string json;  // all of the service's answer
};

struct DescribeOptions {
  SpecSource spec;
  std::string target;  // empty: as in LoaderOptions
  Credentials credentials;
  EmbeddedOptions embedded;
  bool schema_only = false;  // what the spec alone tells, without reading data
  uint32_t world_size = 1;
  absl::Duration deadline = absl::Seconds(300);  // for the whole answer
  std::function<void(const LoaderProgress&)> on_progress;
};
absl::StatusOr<SpecDescription> Describe(const DescribeOptions& options);

}  // namespace bulkhead

#endif  // BULKHEAD_CLIENT_CPP_BULKHEAD_SERVICE_H_

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bulkhead/loader.h"
#include "bulkhead/service.h"
#include "tools/common/service_probe.h"

namespace bulkhead::tools {

struct StreamRunOptions {
  LoaderOptions loader;
  uint64_t batches = 0;  // 0: as many as these epochs have
  uint64_t epochs = 0;   // at most; 0: to the end of the stream, or one when it has no end
  // Epochs at the stream's beginning that are taken and not measured.
  uint64_t epochs_before = 0;
  bool digest = false;  // hash everything that is delivered
  absl::Duration next_deadline = absl::Seconds(300);
};

// What a trainer that does nothing but take batches saw.
struct StreamRunReport {
  uint64_t batches = 0;
  uint64_t samples = 0;
  uint64_t bytes = 0;  // of tensors
  // Over the batches after the first, from the first one's arrival to the last one's; without a
  // meaning while gap_seconds is empty, as one batch has no rate.
  double samples_per_second = 0;
  double bytes_per_second = 0;
  std::vector<double> gap_seconds;  // between arrivals, in their order
  double first_batch_seconds = 0;   // from the start of this process
  double elapsed_seconds = 0;       // from the start of this process to the last batch
  double client_cpu_seconds = 0;    // of this whole process
  uint64_t client_memory_bytes = 0;
  ServiceUse service;
  uint64_t substituted = 0;
  uint32_t workers = 0;
  uint32_t threads_per_worker = 0;
  std::string transport;         // "shm" or "grpc"
  std::string transport_reason;  // why not shm, where that was wished for
  std::string digest;            // SHA-256, hex; empty unless asked for
};

// The state of a run, for a progress line.
struct StreamRunTick {
  const StreamInfo& info;
  const StreamRunReport& so_far;  // rates and gaps included
  uint64_t batches_wanted;
};

// Called after every batch; must be quick.
using StreamRunObserver = std::function<void(const StreamRunTick&)>;

// Opens a stream and takes its batches one by one, each given back before the next is asked for.
// Blocks until done. Errors: those of Loader::Open and Loader::Next.
absl::StatusOr<StreamRunReport> RunStream(StreamRunOptions options,
                                          const StreamRunObserver& observer);

// The value below which `share` (0 … 1) of `values` lie, by the nearest rank; 0 when there are
// none.
double Quantile(std::vector<double> values, double share);

}  // namespace bulkhead::tools

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bulkhead/loader.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead::tools {

// One part of what the loader takes on this machine, by how batches reach the trainer.
struct ExplainedMemory {
  std::string what;         // "workers", "arena: image"
  std::string how;          // "2 of 1 thread, quota 512MiB each"
  uint64_t shm_bytes = 0;   // with batches in shared memory
  uint64_t grpc_bytes = 0;  // with batches over gRPC
  bool of_client = false;   // the trainer's, not the service's
};

// The parts of one stream that was admitted with `plan` by a service of its own with `budget`: the
// workers, their replacement, the supervisor, with `reads_objects` bulkhead-fetch, each output's
// share of the arena, the client.
std::vector<ExplainedMemory> MemoryParts(const StreamMemory& plan, const v1::MemoryBudget& budget,
                                         const v1::BatchSchema& schema, bool reads_objects);

// What a client with the default credits holds over gRPC at most, in bytes of batches: those that
// wait, and the one that a Python trainer works on beside them (in C++ it is one of them).
uint64_t ClientBytesOverGrpc(uint64_t batch_bytes);

// Parts in the order in which they are told.
struct RankedMemory {
  std::vector<ExplainedMemory> shown;      // the largest first
  std::vector<ExplainedMemory> remaining;  // the smaller ones, likewise; none or at least two
  ExplainedMemory together;                // of both, the client included
};

// Ranks parts by the larger of their two sizes. Those below a hundredth of the whole remain, but
// for the client's, which is small because of what it does.
RankedMemory RankMemory(std::vector<ExplainedMemory> parts);

// All that `parts` take by either way.
ExplainedMemory SumOf(const std::vector<ExplainedMemory>& parts);

}  // namespace bulkhead::tools

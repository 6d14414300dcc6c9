#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/os/files/fd.h"
#include "server/os/process/spawner.h"

namespace bulkhead {

// Makes the descriptor of one worker's standard output and error, which no other worker shares.
// Empty: workers get those of this process.
using WorkerOutput = std::function<absl::StatusOr<UniqueFd>()>;

// The program of a worker: bulkhead-worker, or the user's interpreter with its host.
struct WorkerProgram {
  std::string path;               // absolute
  std::vector<std::string> args;  // before those that WorkerProcess adds
  // "NAME=value"; the last entry of a name counts.
  std::vector<std::string> environment = {};
  WorkerOutput output = {};
  // Starts it; null: the thread that wants the worker does, and waits for the program's storage.
  Spawner* spawner = nullptr;
  // Memory that its workers map and another process owns: the trainer's dataset.
  uint64_t shared_bytes = 0;
};

// An entry of `environment` that makes glibc (2.35 and newer) use huge pages for the heap, which
// all threads then share. Memory that grows by megabytes then costs one page fault per 2 MiB
// instead of one per 4 KiB. The user's own GLIBC_TUNABLES for huge pages take precedence.
std::string HugePagesInHeap();

// The programs of a service's pipelines.
struct WorkerPrograms {
  WorkerProgram native;
  WorkerProgram python;  // an empty path: pipelines with Python stages are refused
};

}  // namespace bulkhead

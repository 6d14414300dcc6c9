#ifndef BULKHEAD_SERVER_SUPERVISOR_WORKER_WORKER_PROGRAM_H_
#define BULKHEAD_SERVER_SUPERVISOR_WORKER_WORKER_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/os/process/spawner.h"

namespace bulkhead {

// The program of a worker: bulkhead-worker, or the user's interpreter with its host.
struct WorkerProgram {
  std::string path;               // absolute
  std::vector<std::string> args;  // before those that WorkerProcess adds
  // "NAME=value"; the last entry of a name counts.
  std::vector<std::string> environment = {};
  // See SpawnSpec::output_fd.
  int output_fd = -1;
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

#endif  // BULKHEAD_SERVER_SUPERVISOR_WORKER_WORKER_PROGRAM_H_

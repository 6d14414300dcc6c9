#ifndef BULKHEAD_SERVER_SUPERVISOR_WORKER_WORKER_PROGRAM_H_
#define BULKHEAD_SERVER_SUPERVISOR_WORKER_WORKER_PROGRAM_H_

#include <cstdint>
#include <string>
#include <utility>
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

// A worker's whole environment: `set`, plus those of this process's variables that programs need.
// This process's other variables may hold secrets. Kept are PATH, HOME, the locale, library paths,
// thread counts, and the variables of Python, sanitizers and Bulkhead.
std::vector<std::string> WorkerEnvironment(const std::vector<std::string>& set);

// An entry of `environment` that makes glibc (2.35 and newer) use huge pages for the heap, which
// all threads then share. Memory that grows by megabytes then costs one page fault per 2 MiB
// instead of one per 4 KiB. The user's own GLIBC_TUNABLES for huge pages take precedence.
std::string HugePagesInHeap();

// Adds the worker's scratch folder to its environment: as TMPDIR, and for the host of Python
// stages, which derives HOME from it.
void AddScratch(const std::string& folder, std::vector<std::string>& environment);

// The programs of a service's pipelines.
struct WorkerPrograms {
  WorkerProgram native;
  WorkerProgram python;  // an empty path: pipelines with Python stages are refused
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_WORKER_WORKER_PROGRAM_H_

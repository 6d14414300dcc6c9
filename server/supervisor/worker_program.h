#ifndef BULKHEAD_SERVER_SUPERVISOR_WORKER_PROGRAM_H_
#define BULKHEAD_SERVER_SUPERVISOR_WORKER_PROGRAM_H_

#include <string>
#include <utility>
#include <vector>

namespace bulkhead {

// What is started as a worker: bulkhead-worker, or the user's interpreter with its host.
struct WorkerProgram {
  std::string path;               // absolute
  std::vector<std::string> args;  // before those that WorkerProcess gives
  // "NAME=value"; of several of one name the last counts.
  std::vector<std::string> environment = {};
  // As SpawnSpec::output_fd.
  int output_fd = -1;
};

// A worker's whole environment: `set`, and of this process's own, which may hold secrets, what
// programs need to run: PATH, HOME, the locale, libraries' places, numbers of threads, and what is
// Python's, sanitizers' or Bulkhead's.
std::vector<std::string> WorkerEnvironment(const std::vector<std::string>& set);

// What has glibc (2.35 and newer; older ones pass over it) ask for huge pages for the heap, as an
// entry of `environment`: memory that grows by the megabyte then costs a page fault for every
// 2 MiB instead of one for every 4 KiB. All threads share that one heap. What the user's own
// GLIBC_TUNABLES say of huge pages stays.
std::string HugePagesInHeap();

// Tells a worker of the folder that it may write in: as TMPDIR, and to the host of Python stages,
// which makes HOME of it.
void AddScratch(const std::string& folder, std::vector<std::string>& environment);

// The programs of a service's pipelines.
struct WorkerPrograms {
  WorkerProgram native;
  WorkerProgram python;  // without a path: pipelines with Python stages are not served
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_WORKER_PROGRAM_H_

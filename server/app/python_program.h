#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/supervisor/worker/worker_program.h"

namespace bulkhead {

struct PythonOptions {
  std::string interpreter;     // a path, or a name for PATH; empty: python3
  std::string worker_program;  // bulkhead-worker: the libraries lie in ../lib of its folder
  std::vector<std::string> python_paths;  // absolute
  std::vector<std::string> native_paths;  // absolute
  bool trace = false;                     // find the lines that allocate what is kept
};

// The program of a worker with Python stages. NOT_FOUND, with what to do, if the interpreter or
// Bulkhead's part in it is missing.
absl::StatusOr<WorkerProgram> PythonWorkerProgram(const PythonOptions& options);

// The folder of the functions that read clients' datasets in workers. NOT_FOUND if it is missing.
absl::StatusOr<std::string> FolderOfDatasets(const std::string& worker_program);

}  // namespace bulkhead

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/app/config.h"
#include "server/supervisor/worker/worker_program.h"

namespace bulkhead {

// The program of a worker with Python stages, of --python and --trace-python. `worker_program`:
// bulkhead-worker; the libraries lie in ../lib of its folder. The paths are absolute. NOT_FOUND,
// with what to do, if the interpreter or Bulkhead's part in it is missing.
absl::StatusOr<WorkerProgram> PythonWorkerProgram(const DaemonOptions& options,
                                                  const std::string& worker_program,
                                                  const std::vector<std::string>& python_paths,
                                                  const std::vector<std::string>& native_paths);

// The folder of the functions that read clients' datasets in workers. NOT_FOUND if it is missing.
absl::StatusOr<std::string> FolderOfDatasets(const std::string& worker_program);

}  // namespace bulkhead

#include "server/app/python_program.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/error.h"
#include "server/os/files/filesystem.h"
#include "server/os/process/worker_environment.h"

namespace bulkhead {
namespace {

std::string Environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

// The interpreter's absolute path, with links unresolved: a virtual environment is found by the
// path of its program.
absl::StatusOr<std::string> FindInterpreter(const std::string& asked) {
  const std::string name = asked.empty() ? "python3" : asked;
  if (name.find('/') != std::string::npos) {
    if (access(name.c_str(), X_OK) != 0) {
      return absl::NotFoundError(absl::StrCat("--python ", name, " is not a program"));
    }
    if (name[0] == '/') return name;
    BULKHEAD_ASSIGN_OR_RETURN(const std::string here, RealPath("."));
    return absl::StrCat(here, "/", name);
  }
  for (const auto& folder : absl::StrSplit(Environment("PATH"), ':', absl::SkipEmpty())) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (path[0] == '/' && access(path.c_str(), X_OK) == 0) return path;
  }
  return absl::NotFoundError(absl::StrCat("there is no ", name,
                                          " in PATH for --python-path; name an interpreter with "
                                          "--python PROGRAM"));
}

std::string LibraryFolder(const std::string& worker_program) {
  return absl::StrCat(worker_program.substr(0, worker_program.rfind('/')), "/../lib");
}

// The user's other settings stay.
std::vector<std::string> PythonEnvironment(const std::string& libraries) {
  std::vector<std::string> environment = PythonVariables();
  const std::string preloaded = Environment("LD_PRELOAD");
  environment.push_back(absl::StrCat("LD_PRELOAD=", libraries, "/libbulkhead_allocations.so",
                                     preloaded.empty() ? "" : ":", preloaded));
  // Python's own allocator takes hundreds of pages at once and shares them among stages, so a leak
  // would be attributed to the wrong stage.
  if (Environment("PYTHONMALLOC").empty()) environment.push_back("PYTHONMALLOC=malloc");
  if (Environment("BULKHEAD_PLUGIN_DIR").empty()) {
    environment.push_back("BULKHEAD_PLUGIN_DIR=" + libraries);
  }
  return environment;
}

}  // namespace

absl::StatusOr<WorkerProgram> PythonWorkerProgram(const DaemonOptions& options,
                                                  const std::string& worker_program,
                                                  const std::vector<std::string>& python_paths,
                                                  const std::vector<std::string>& native_paths) {
  WorkerProgram program;
  BULKHEAD_ASSIGN_OR_RETURN(program.path, FindInterpreter(options.python));
  const std::string wanted = LibraryFolder(worker_program);
  const auto libraries = RealPath(wanted);
  const std::string host = libraries.ok() ? *libraries + "/bulkhead/worker_host.py" : "";
  if (!libraries.ok() || access(host.c_str(), R_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat("Python stages need bulkhead/worker_host.py and libbulkhead_worker.so in ",
                     wanted, ", but they are missing; install them, or omit --python-path"));
  }
  // -B: a worker writes no files.
  program.args = {"-B", host, absl::StrCat("--library=", *libraries, "/libbulkhead_worker.so")};
  for (const std::string& folder : python_paths) program.args.push_back("--python-path=" + folder);
  for (const std::string& folder : native_paths) program.args.push_back("--native-path=" + folder);
  if (options.trace_python) program.args.emplace_back("--trace-python");
  program.environment = PythonEnvironment(*libraries);
  return program;
}

absl::StatusOr<std::string> FolderOfDatasets(const std::string& worker_program) {
  const std::string wanted = LibraryFolder(worker_program) + "/bulkhead/datasets";
  absl::StatusOr<std::string> folder = RealPath(wanted);
  if (folder.ok()) return folder;
  return absl::NotFoundError(absl::StrCat("--allow-datasets needs the files in ", wanted,
                                          ", but they are missing; install them, or leave the "
                                          "option out"));
}

}  // namespace bulkhead

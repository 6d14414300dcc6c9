#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace bulkhead {

// The environment of the processes that run user code: workers, and a tool's interpreter. Entries
// are "NAME=value".

// A worker's whole environment: `set`, plus those of this process's variables that programs need.
// This process's other variables may hold secrets. Kept are PATH, HOME, the locale, library paths,
// thread counts, and the variables of Python, sanitizers and Bulkhead.
std::vector<std::string> WorkerEnvironment(const std::vector<std::string>& set);

// What is set in every process of Python stages: variables that change results or memory must not
// differ between workers.
std::vector<std::string> PythonVariables();

// What $BULKHEAD_WORKER_ENV, a list with commas, and then `worker_env` ask for: "NAME=value" sets a
// variable, "NAME" passes this process's on. Error: INVALID_ARGUMENT for an entry without a name.
absl::StatusOr<std::vector<std::string>> AskedEnvironment(
    const std::vector<std::string>& worker_env);

// Adds the worker's scratch folder to its environment: as TMPDIR, and for the host of Python
// stages, which derives HOME from it.
void AddScratch(const std::string& folder, std::vector<std::string>& environment);

}  // namespace bulkhead

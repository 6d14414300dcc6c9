#pragma once

#include <string>

#include "absl/status/status.h"

namespace bulkhead::client_internal {

// The logs of embedded services, which survive them: a bounded number of files, whose size the
// service bounds. They lie in `logs` in the cache folder that the service takes, and the Python
// client's are among them.

// The path for the log of the service `id` (letters and digits) that is about to start with this
// EmbeddedOptions::cache_dir; makes the folder, and removes the oldest logs. Empty: it keeps none.
std::string NewServiceLog(const std::string& id, const std::string& cache_dir);

// The error of a service, told to the program that started it: options by their names there, and
// the path of the log, if there is one, at the end. An error of a spec, or of the program itself,
// names no log.
absl::Status ForProgram(const absl::Status& error, const std::string& log);

}  // namespace bulkhead::client_internal

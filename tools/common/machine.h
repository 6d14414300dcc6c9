#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "tools/common/json.h"

namespace bulkhead::tools {

// What a figure was measured on: {"cpu": …, "cores": CPUs this process may use}.
JsonObject DescribeMachine();

// The command line of this process, words with spaces in quotes.
std::string CommandLine();

// Time since this process was started (exec included); resolution 10 ms.
absl::Duration ProcessAge();

// CPU time of this process, user and system.
double OwnCpuSeconds();

// Memory of this process that is not shared: anonymous and private file pages.
uint64_t OwnMemoryBytes();

// CPUs that this process may run on.
int UsableCpus();

}  // namespace bulkhead::tools

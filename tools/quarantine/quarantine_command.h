#ifndef BULKHEAD_TOOLS_QUARANTINE_QUARANTINE_COMMAND_H_
#define BULKHEAD_TOOLS_QUARANTINE_QUARANTINE_COMMAND_H_

#include <CLI/CLI.hpp>

namespace bulkhead::tools {

// `bulkhead quarantine list|add|clear`: the records that a running service keeps from its workers.
void AddQuarantineCommand(CLI::App& app, int& exit_code);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_QUARANTINE_QUARANTINE_COMMAND_H_

#ifndef BULKHEAD_TOOLS_INSPECT_INSPECT_COMMAND_H_
#define BULKHEAD_TOOLS_INSPECT_INSPECT_COMMAND_H_

#include <CLI/CLI.hpp>

namespace bulkhead::tools {

// `bulkhead inspect`: what data hold, and a spec to begin with.
void AddInspectCommand(CLI::App& app, int& exit_code);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_INSPECT_INSPECT_COMMAND_H_

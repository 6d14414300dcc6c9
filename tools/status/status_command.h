#ifndef BULKHEAD_TOOLS_STATUS_STATUS_COMMAND_H_
#define BULKHEAD_TOOLS_STATUS_STATUS_COMMAND_H_

#include <CLI/CLI.hpp>

namespace bulkhead::tools {

// `bulkhead status`: what a service is doing, and what its workers died of.
void AddStatusCommand(CLI::App& app, int& exit_code);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_STATUS_STATUS_COMMAND_H_

#ifndef BULKHEAD_TOOLS_RECYCLE_RECYCLE_COMMAND_H_
#define BULKHEAD_TOOLS_RECYCLE_RECYCLE_COMMAND_H_

#include <CLI/CLI.hpp>

namespace bulkhead::tools {

// `bulkhead recycle`: replaces a service's workers by hand.
void AddRecycleCommand(CLI::App& app, int& exit_code);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_RECYCLE_RECYCLE_COMMAND_H_

#ifndef BULKHEAD_TOOLS_SCAN_SCAN_COMMAND_H_
#define BULKHEAD_TOOLS_SCAN_SCAN_COMMAND_H_

#include <CLI/CLI.hpp>

namespace bulkhead::tools {

// `bulkhead scan`: every record of a spec that cannot be made into a sample.
void AddScanCommand(CLI::App& app, int& exit_code);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_SCAN_SCAN_COMMAND_H_

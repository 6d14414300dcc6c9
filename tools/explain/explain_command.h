#ifndef BULKHEAD_TOOLS_EXPLAIN_EXPLAIN_COMMAND_H_
#define BULKHEAD_TOOLS_EXPLAIN_EXPLAIN_COMMAND_H_

#include <CLI/CLI.hpp>

namespace bulkhead::tools {

// Adds `bulkhead explain`: where a spec's memory and time go, before a training run.
void AddExplainCommand(CLI::App& app, int& exit_code);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_EXPLAIN_EXPLAIN_COMMAND_H_

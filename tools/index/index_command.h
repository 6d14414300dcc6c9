#ifndef BULKHEAD_TOOLS_INDEX_INDEX_COMMAND_H_
#define BULKHEAD_TOOLS_INDEX_INDEX_COMMAND_H_

#include <CLI/CLI.hpp>

namespace bulkhead::tools {

// `bulkhead index`: makes what a service would learn of the data in a training's first epoch.
void AddIndexCommand(CLI::App& app, int& exit_code);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_INDEX_INDEX_COMMAND_H_

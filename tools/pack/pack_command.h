#ifndef BULKHEAD_TOOLS_PACK_PACK_COMMAND_H_
#define BULKHEAD_TOOLS_PACK_PACK_COMMAND_H_

#include <CLI/CLI.hpp>

namespace bulkhead::tools {

// Adds `bulkhead pack`: a folder of images as TFRecord files, with a spec that reads them.
void AddPackCommand(CLI::App& app, int& exit_code);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_PACK_PACK_COMMAND_H_

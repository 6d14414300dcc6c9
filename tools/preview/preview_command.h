#ifndef BULKHEAD_TOOLS_PREVIEW_PREVIEW_COMMAND_H_
#define BULKHEAD_TOOLS_PREVIEW_PREVIEW_COMMAND_H_

#include <CLI/CLI.hpp>

namespace bulkhead::tools {

// Adds `bulkhead preview`: a picture of what a trainer will get, made by a real service.
void AddPreviewCommand(CLI::App& app, int& exit_code);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_PREVIEW_PREVIEW_COMMAND_H_

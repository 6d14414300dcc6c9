#ifndef BULKHEAD_TOOLS_CURSOR_CURSOR_COMMAND_H_
#define BULKHEAD_TOOLS_CURSOR_CURSOR_COMMAND_H_

#include <CLI/CLI.hpp>

namespace bulkhead::tools {

// `bulkhead cursor show|advance|diff`: where a training run stands.
void AddCursorCommand(CLI::App& app, int& exit_code);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_CURSOR_CURSOR_COMMAND_H_

#ifndef BULKHEAD_TOOLS_STREAM_STREAM_COMMAND_H_
#define BULKHEAD_TOOLS_STREAM_STREAM_COMMAND_H_

#include <CLI/CLI.hpp>

namespace bulkhead::tools {

// `bulkhead stream`: streams a user's data and shows what happens.
void AddStreamCommand(CLI::App& app, int& exit_code);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_STREAM_STREAM_COMMAND_H_

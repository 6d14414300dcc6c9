#ifndef BULKHEAD_TOOLS_REPLAY_REPLAY_COMMAND_H_
#define BULKHEAD_TOOLS_REPLAY_REPLAY_COMMAND_H_

#include <CLI/CLI.hpp>

namespace bulkhead::tools {

// `bulkhead replay`: the batches that follow a cursor, to look at.
void AddReplayCommand(CLI::App& app, int& exit_code);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_REPLAY_REPLAY_COMMAND_H_

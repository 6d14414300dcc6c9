#ifndef BULKHEAD_TOOLS_SYNTH_SYNTH_COMMAND_H_
#define BULKHEAD_TOOLS_SYNTH_SYNTH_COMMAND_H_

#include <CLI/CLI.hpp>

namespace bulkhead::tools {

// `bulkhead synth`: writes a synthetic data set.
void AddSynthCommand(CLI::App& app, int& exit_code);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_SYNTH_SYNTH_COMMAND_H_

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/common/options.h"

namespace bulkhead::tools {

// What may stand in the place of the last of `words`, which is begun or empty, behind the others:
// subcommands, options or values of `root`, each with what it is for. Empty: a path, or anything.
std::vector<std::pair<std::string, std::string>> Completions(const Command& root,
                                                             const std::vector<std::string>& words);

// `bulkhead completion SHELL`, which prints a script with which the shell completes what `root`
// makes.
Command CompletionCommand(Command (*root)());

}  // namespace bulkhead::tools

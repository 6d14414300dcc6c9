#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tools/common/options.h"

namespace bulkhead::tools {

// Exit codes of all commands: 0 is fine; with 1 something is wrong with the data, the spec or the
// service, or a command failed; with 2 the command line is wrong, and nothing was done.
inline constexpr int kFailed = 1;
inline constexpr int kUsageError = 2;

// Reads the words of a command line, without the program's, and runs the subcommand of `root` that
// they name, or prints its help. Prints errors to standard error. Returns the exit code.
int RunCommandLine(const Command& root, const std::vector<std::string>& words);

// The subcommand or option of that name; null: there is none.
const Command* FindCommand(const Command& group, absl::string_view name);
const Option* FindOption(const Command& command, absl::string_view name);

}  // namespace bulkhead::tools

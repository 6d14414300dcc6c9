#ifndef BULKHEAD_TOOLS_COMMON_COMMAND_LINE_H_
#define BULKHEAD_TOOLS_COMMON_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace bulkhead::tools {

// Exit code of a command line that is wrong, as bulkheadd's; what fails later ends with 1.
inline constexpr int kUsageError = 2;

// Parses the command line, which runs the subcommand that it names. Returns the exit code: 0 after
// --help and --version, kUsageError when the command line is wrong, else what the subcommand left
// in `exit_code`.
int RunCommandLine(CLI::App& app, int argc, const char* const* argv, const int& exit_code);

// For counts where 0 would silently mean something else: a whole number of at least 1.
CLI::Validator AtLeastOne();

// Throws CLI::ValidationError, with `why`, for the first of `options` that was given.
void RefuseOptions(const CLI::App& command, const std::vector<std::string>& options,
                   const std::string& why);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_COMMON_COMMAND_LINE_H_

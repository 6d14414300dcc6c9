#include "tools/common/command_line.h"

#include <cstdint>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace bulkhead::tools {
namespace {

// "unknown subcommand 'foo'; …" when that is what is wrong, else nothing.
std::string UnknownSubcommand(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  if (command->get_require_subcommand_min() == 0) return "";
  const std::vector<std::string> words = app.remaining(true);
  if (words.empty() || words.front().rfind('-', 0) == 0) return "";
  std::vector<std::string> names;
  for (const CLI::App* known : command->get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(known->get_name());
  }
  return absl::StrCat("unknown subcommand '", words.front(),
                      "'; there are: ", absl::StrJoin(names, ", "));
}

}  // namespace

int RunCommandLine(CLI::App& app, int argc, const char* const* argv, const int& exit_code) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError& error) {
    const std::string unknown = UnknownSubcommand(app);
    if (unknown.empty()) {
      app.exit(error);
    } else {
      std::fprintf(stderr, "%s\nRun with --help for more information.\n", unknown.c_str());
    }
    return kUsageError;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  } catch (const std::exception& error) {
    // The standard library's, such as that of a file system which does not answer as it should.
    std::fprintf(stderr, "bulkhead: %s\n", error.what());
    return 1;
  }
  return exit_code;
}

CLI::Validator AtLeastOne() {
  return CLI::Validator(
      [](std::string& text) {
        uint64_t value = 0;
        const bool fits = absl::SimpleAtoi(text, &value) && value > 0;
        return fits ? "" : absl::StrCat("'", text, "' is not a whole number of at least 1");
      },
      "");
}

void RefuseOptions(const CLI::App& command, const std::vector<std::string>& options,
                   const std::string& why) {
  for (const std::string& option : options) {
    if (command.count(option) > 0) throw CLI::ValidationError(option, why);
  }
}

}  // namespace bulkhead::tools

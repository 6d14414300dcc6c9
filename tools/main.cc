// The `bulkhead` command. Every subcommand has a folder of its own.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/common/command_line.h"
#include "tools/common/commands.h"
#include "tools/completion/completion_command.h"

namespace bulkhead::tools {
namespace {

Command Root() {
  Command root{
      .name = "bulkhead",
      .about = "Bulkhead: data loading for training jobs, in separate processes",
      .more =
          "Exit codes: 0: success; 1: something is wrong with the data, the spec or the service; "
          "2: the\ncommand line is wrong, and nothing was done.\n"
          "\n"
          "Examples:\n"
          "  bulkhead inspect photos/                what data contain, and a spec to begin with\n"
          "  bulkhead validate train.yaml            check a spec\n"
          "  bulkhead scan train.yaml                find every record that cannot be used\n"
          "  bulkhead preview train.yaml --out sheet.png\n"
          "  bulkhead stream train.yaml              watch it\n"
          "  bulkhead status                         a service, also one that a trainer started\n"
          "\n"
          "`bulkhead SUBCOMMAND --help` has options and examples, `bulkhead completion --help`\n"
          "completion for shells.\n"};
  // main() knows it; here it is for the help and for shells.
  root.options = {{"--version", "Print the version", {.word = "", .take = [](const std::string&) {
                                                        return "";
                                                      }}}};
  root.commands = {InspectCommand(),    StreamCommand(),        ValidateCommand(), ScanCommand(),
                   SchemaCommand(),     DoctorCommand(),        ExplainCommand(),  PreviewCommand(),
                   IndexCommand(),      OrderCommand(),         SynthCommand(),    PackCommand(),
                   BenchCommand(),      CursorCommand(),        ReplayCommand(),   StatusCommand(),
                   TopCommand(),        TraceCommand(),         HealthCommand(),   RecycleCommand(),
                   QuarantineCommand(), CompletionCommand(Root)};
  return root;
}

}  // namespace
}  // namespace bulkhead::tools

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "--version") {
    std::puts("bulkhead " BULKHEAD_VERSION);
    return 0;
  }
  // Standard output is for results.
  auto log = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("bulkhead", std::move(log)));
  spdlog::set_pattern("bulkhead: %v");
  spdlog::set_level(spdlog::level::warn);
  return bulkhead::tools::RunCommandLine(bulkhead::tools::Root(), words);
}

#include "tools/status/status_command.h"

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "bulkhead/service.h"
#include "tools/common/default_target.h"
#include "tools/common/status_message.h"
#include "tools/status/status_text.h"

namespace bulkhead::tools {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(30);

struct StatusArguments {
  std::string target = DefaultTarget();
  bool json = false;
  double every_seconds = 0;
};

int Fail(const absl::Status& status) {
  absl::FPrintF(stderr, "bulkhead status: %s\n", std::string(status.message()));
  return 1;
}

int Run(const StatusArguments& arguments) {
  while (true) {
    if (arguments.json) {
      const auto json = GetStatusJson(arguments.target, kDeadline);
      if (!json.ok()) return Fail(json.status());
      std::printf("%s\n", json->c_str());
    } else {
      const auto status = GetStatusMessage(arguments.target, kDeadline);
      if (!status.ok()) return Fail(status.status());
      if (arguments.every_seconds > 0) std::printf("\033[H\033[2J");  // from the top of the screen
      std::printf("%s", StatusText(*status).c_str());
    }
    std::fflush(stdout);
    if (arguments.every_seconds <= 0) return 0;
    absl::SleepFor(absl::Seconds(arguments.every_seconds));
  }
}

}  // namespace

void AddStatusCommand(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<StatusArguments>();
  CLI::App* command = app.add_subcommand(
      "status",
      "Show what a service is doing: workers, their memory by stage, deaths and their causes");
  command
      ->add_option("--target", arguments->target,
                   "Where the service listens: unix:/path or host:port")
      ->capture_default_str();
  command->add_option("--every", arguments->every_seconds, "Repeat at this interval, in seconds")
      ->check(CLI::Range(0.1, 86400.0));
  command->add_flag("--json", arguments->json, "Print the whole status as JSON");
  command->footer(
      "Examples:\n"
      "  bulkhead status --target unix:/run/bulkhead.sock\n"
      "  bulkhead status --every 2\n"
      "  bulkhead status --json\n");
  command->callback([arguments, &exit_code] { exit_code = Run(*arguments); });
}

}  // namespace bulkhead::tools

#include "tools/status/status_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "bulkhead/service.h"
#include "tools/common/default_target.h"
#include "tools/common/status_message.h"
#include "tools/status/own_services.h"
#include "tools/status/status_text.h"

namespace bulkhead::tools {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(30);

struct StatusArguments {
  std::string target;  // empty: the only one of this user
  bool all = false;
  bool json = false;
  double every_seconds = 0;
};

int Fail(const absl::Status& status) {
  absl::FPrintF(stderr, "bulkhead status: %s\n", std::string(status.message()));
  return 1;
}

// The services of this user: the one at the default address, then those of trainers.
std::vector<std::string> OwnTargets() {
  std::vector<std::string> targets = EmbeddedTargets(EmbeddedParents());
  if (Listens(DefaultTarget())) targets.insert(targets.begin(), DefaultTarget());
  return targets;
}

int Show(const StatusArguments& arguments, const std::string& target) {
  if (arguments.json) {
    const auto json = GetStatusJson(target, kDeadline);
    if (!json.ok()) return Fail(json.status());
    std::printf("%s\n", json->c_str());
    return 0;
  }
  const auto status = GetStatusMessage(target, kDeadline);
  if (!status.ok()) return Fail(status.status());
  std::printf("%s", StatusText(*status).c_str());
  return 0;
}

// A line for each service. One that has just ended is left out.
void List(const StatusArguments& arguments, const std::vector<std::string>& targets) {
  for (const std::string& target : targets) {
    if (arguments.json) {
      const auto json = GetStatusJson(target, kDeadline);
      if (json.ok()) std::printf("%s\n", json->c_str());
      continue;
    }
    const auto status = GetStatusMessage(target, kDeadline);
    if (status.ok()) std::printf("%s\n", ServiceLine(target, *status).c_str());
  }
}

int ShowOnce(const StatusArguments& arguments) {
  if (!arguments.target.empty()) return Show(arguments, arguments.target);
  const std::vector<std::string> targets = OwnTargets();
  if (targets.empty()) {
    return Fail(absl::NotFoundError(
        absl::StrCat("no service of yours runs: none at ", DefaultTarget(),
                     ", and none that a trainer has started for itself; --target names another")));
  }
  if (!arguments.all && targets.size() == 1) return Show(arguments, targets[0]);
  List(arguments, targets);
  if (arguments.all) return 0;
  absl::FPrintF(stderr, "bulkhead status: %d services run; name one: bulkhead status --target %s\n",
                targets.size(), targets[0]);
  return 1;
}

int Run(const StatusArguments& arguments) {
  while (true) {
    const bool repeats = arguments.every_seconds > 0;
    if (repeats && !arguments.json) std::printf("\033[H\033[2J");  // from the top of the screen
    const int code = ShowOnce(arguments);
    std::fflush(stdout);
    if (code != 0 || !repeats) return code;
    absl::SleepFor(absl::Seconds(arguments.every_seconds));
  }
}

}  // namespace

void AddStatusCommand(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<StatusArguments>();
  CLI::App* command = app.add_subcommand(
      "status",
      "Show what a service is doing: workers, their memory by stage, deaths and their causes");
  CLI::Option* const target = command->add_option(
      "--target", arguments->target,
      "Where the service listens: unix:/path or host:port. Default: the only one of yours on this "
      "machine, also one that a trainer has started for itself");
  command->add_flag("--all", arguments->all, "A line for each service of yours on this machine")
      ->excludes(target);
  command->add_option("--every", arguments->every_seconds, "Repeat at this interval, in seconds")
      ->check(CLI::Range(0.1, 86400.0));
  command->add_flag("--json", arguments->json, "Print the whole status as JSON");
  command->footer(
      "Examples:\n"
      "  bulkhead status\n"
      "  bulkhead status --all\n"
      "  bulkhead status --target unix:/run/bulkhead.sock\n"
      "  bulkhead status --every 2\n"
      "  bulkhead status --json\n");
  command->callback([arguments, &exit_code] { exit_code = Run(*arguments); });
}

}  // namespace bulkhead::tools

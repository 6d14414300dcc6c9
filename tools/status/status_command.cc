#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bulkhead/service.h"
#include "server/base/error.h"
#include "tools/common/commands.h"
#include "tools/common/own_services.h"
#include "tools/common/status_message.h"
#include "tools/status/status_rates.h"
#include "tools/status/status_text.h"

namespace bulkhead::tools {
namespace {

constexpr char kStatusExamples[] =
    R"(Rates are those of a second between two looks, or since the look before with --every;
whole batches are counted, so of large ones --every 10 tells more. A stage holds what it
allocated; of that, pages that were never touched are no memory of the worker.

Examples:
  bulkhead status
  bulkhead status --all
  bulkhead status --target unix:/run/bulkhead.sock
  bulkhead status --every 2
  bulkhead status --json
)";

constexpr absl::Duration kStatusDeadline = absl::Seconds(30);

struct StatusArguments {
  std::string target;  // empty: the only one of this user
  bool all = false;
  bool json = false;
  double every_seconds = 0;
};

// The looks at each service that is shown.
using Looks = std::map<std::string, StatusLooks>;

// In place of what was printed before, where that repeats.
void Print(const StatusArguments& arguments, const std::string& text) {
  const bool clears = arguments.every_seconds > 0 && !arguments.json;
  std::printf("%s%s", clears ? "\033[H\033[2J" : "", text.c_str());
  std::fflush(stdout);
}

absl::Status Show(const StatusArguments& arguments, const std::string& target, Looks& looks) {
  if (arguments.json) {
    BULKHEAD_ASSIGN_OR_RETURN(const std::string json,
                              GetStatusJson(target, kStatusDeadline, {}, /*fresh_memory=*/true));
    Print(arguments, absl::StrCat(json, "\n"));
    return absl::OkStatus();
  }
  const auto [known, is_new] = looks.try_emplace(target, target);
  StatusLooks& look = known->second;
  BULKHEAD_RETURN_IF_ERROR(is_new ? look.LookTwice() : look.Look());
  Print(arguments, StatusText(look.status(), look.rates()));
  return absl::OkStatus();
}

// A line for each service. One that has just ended is left out; one on TCP may not know this
// client.
void List(const StatusArguments& arguments, const std::vector<std::string>& targets) {
  std::string lines;
  for (const std::string& target : targets) {
    if (arguments.json) {
      const auto json = GetStatusJson(target, kStatusDeadline);
      if (json.ok()) absl::StrAppend(&lines, *json, "\n");
      continue;
    }
    const auto status = GetStatusMessage(target, kStatusDeadline);
    if (status.ok()) {
      absl::StrAppend(&lines, ServiceLine(target, *status), "\n");
    } else if (!absl::StartsWith(target, "unix:")) {
      absl::StrAppend(&lines, target, "  tells nothing: ", status.status().message(), "\n");
    }
  }
  Print(arguments, lines);
}

absl::Status ShowOnce(const StatusArguments& arguments, Looks& looks) {
  if (arguments.all) {
    const std::vector<std::string> targets = OwnTargets();
    if (targets.empty() && !arguments.json) Print(arguments, "no service of yours runs here\n");
    List(arguments, targets);
    return absl::OkStatus();
  }
  const absl::StatusOr<std::string> target = FindService(arguments.target);
  if (absl::IsFailedPrecondition(target.status())) List(arguments, OwnTargets());
  return target.ok() ? Show(arguments, *target, looks) : target.status();
}

absl::Status Run(const StatusArguments& arguments) {
  Looks looks;
  while (true) {
    const absl::Status shown = ShowOnce(arguments, looks);
    if (!shown.ok() || arguments.every_seconds == 0) return shown;
    absl::SleepFor(absl::Seconds(arguments.every_seconds));
  }
}

}  // namespace

Command StatusCommand() {
  const auto arguments = std::make_shared<StatusArguments>();
  return {.name = "status",
          .about =
              "Show what a service is doing: who waits for whom, workers, their memory and time by "
              "stage, deaths and their causes",
          .more = kStatusExamples,
          .options = {FoundTargetOption(arguments->target),
                      {"--all",
                       "A line for each service of yours on this machine",
                       Flag(arguments->all),
                       false,
                       {"--target"}},
                      {"--every", "Repeat at this interval", Seconds(arguments->every_seconds)},
                      {"--json", "Print the whole status as JSON", Flag(arguments->json)}},
          .run = [arguments] { return Done(Run(*arguments)); }};
}

}  // namespace bulkhead::tools

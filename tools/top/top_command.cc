#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bulkhead/service.h"
#include "server/base/error.h"
#include "tools/common/commands.h"
#include "tools/common/own_services.h"
#include "tools/status/status_rates.h"
#include "tools/top/terminal_screen.h"
#include "tools/top/top_screen.h"

namespace bulkhead::tools {
namespace {

constexpr char kTopExamples[] =
    R"(Ctrl-C ends it.

Examples:
  bulkhead top
  bulkhead top --every 5 --target unix:/run/bulkhead.sock
  bulkhead top --once
  bulkhead top --json --every 10 >> service.jsonl
)";

constexpr absl::Duration kLookDeadline = absl::Seconds(30);

struct TopArguments {
  std::string target;  // empty: the only one of this user
  bool once = false;
  bool json = false;
  double every_seconds = 0;
};

absl::Status ShowOnce(const std::string& target) {
  StatusLooks looks(target);
  BULKHEAD_RETURN_IF_ERROR(looks.LookTwice());
  TopScreen screen;
  screen.Add(looks.status(),
             looks.rates().value_or(RatesBetween(looks.status(), looks.status(), 1)));
  std::fputs(screen.Text().c_str(), stdout);
  return absl::OkStatus();
}

absl::Status ShowOn(TerminalScreen& terminal, const std::string& target, absl::Duration every) {
  StatusLooks looks(target);
  TopScreen screen;
  BULKHEAD_RETURN_IF_ERROR(looks.Look());
  terminal.Show(absl::StrCat("looking at ", target, " …\n"));
  while (terminal.Wait(every)) {
    BULKHEAD_RETURN_IF_ERROR(looks.Look());
    screen.Add(looks.status(), *looks.rates());
    terminal.Show(screen.Text());
  }
  return absl::OkStatus();
}

// The whole status, a line at each look.
absl::Status PrintJson(const std::string& target, bool once, absl::Duration every) {
  while (true) {
    BULKHEAD_ASSIGN_OR_RETURN(const std::string json,
                              GetStatusJson(target, kLookDeadline, {}, /*fresh_memory=*/true));
    std::printf("%s\n", json.c_str());
    std::fflush(stdout);
    if (once) return absl::OkStatus();
    absl::SleepFor(every);
  }
}

absl::Status Run(const TopArguments& arguments) {
  const absl::Duration every =
      arguments.every_seconds == 0 ? StatusLooks::kPause : absl::Seconds(arguments.every_seconds);
  const bool draws = !arguments.json && !arguments.once;
  if (draws && !TerminalScreen::IsThere()) {
    return absl::FailedPreconditionError(
        "top draws on a terminal, and standard output is none; print one screen by `bulkhead top "
        "--once`, or a status again and again by `bulkhead status --every 2`");
  }
  std::optional<TerminalScreen> terminal;
  if (draws) terminal.emplace();  // before a call to a service starts threads
  BULKHEAD_ASSIGN_OR_RETURN(const std::string target, FindService(arguments.target));
  if (arguments.json) return PrintJson(target, arguments.once, every);
  return draws ? ShowOn(*terminal, target, every) : ShowOnce(target);
}

}  // namespace

Command TopCommand() {
  const auto arguments = std::make_shared<TopArguments>();
  return {.name = "top",
          .about = "Watch a service: rates, who waits for whom, memory under the quota, verdicts",
          .more = kTopExamples,
          .options = {FoundTargetOption(arguments->target),
                      {"--once", "Print one screen, also where there is no terminal, and end",
                       Flag(arguments->once)},
                      {"--every",
                       "Look at this interval; default: every second",
                       Seconds(arguments->every_seconds),
                       false,
                       {"--once"}},
                      {"--json",
                       "Print the whole status at each look as a line of JSON, also where there "
                       "is no terminal",
                       Flag(arguments->json)}},
          .run = [arguments] { return Done(Run(*arguments)); }};
}

}  // namespace bulkhead::tools

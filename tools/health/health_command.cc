#include <algorithm>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "bulkhead/service.h"
#include "server/base/error.h"
#include "tools/common/clock.h"
#include "tools/common/commands.h"
#include "tools/common/json.h"
#include "tools/common/own_services.h"

namespace bulkhead::tools {
namespace {

constexpr char kHealthExamples[] =
    R"(Asks gRPC's health check; over TLS any right is enough. Certificates come from a
target file or the environment (BULKHEAD_TLS_CA, BULKHEAD_TLS_CERT, BULKHEAD_TLS_KEY).

Examples:
  bulkhead health
  bulkhead health --target unix:/run/bulkhead/loader.sock --timeout 1
  bulkhead health --target loader.yaml
  bulkhead health --target fleet.yaml --wait 600
)";

struct HealthArguments {
  std::string target;
  double timeout_seconds = 5;
  double wait_seconds = 0;
  bool json = false;
};

constexpr absl::Duration kPause = absl::Seconds(1);

bool MayPass(const absl::Status& health) {
  return absl::IsUnavailable(health) || absl::IsDeadlineExceeded(health);
}

// Asks again while the service is away, as long as the caller waits.
absl::Status Check(const std::string& target, const HealthArguments& arguments) {
  const absl::Time end = SteadyNow() + absl::Seconds(arguments.wait_seconds);
  for (;;) {
    absl::Status health = CheckHealth(target, absl::Seconds(arguments.timeout_seconds));
    if (arguments.wait_seconds == 0 || !MayPass(health)) return health;
    const absl::Duration left = end - SteadyNow();
    if (left <= absl::ZeroDuration()) {
      return Annotate(health, absl::StrCat("not within ", arguments.wait_seconds, " s"));
    }
    absl::SleepFor(std::min(left, kPause));
  }
}

absl::StatusOr<int> Run(const HealthArguments& arguments) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::string target, FindService(arguments.target));
  const absl::Status health = Check(target, arguments);
  if (arguments.json) {
    absl::PrintF("%s\n", JsonObject().Add("target", target).Add("serves", health.ok()).Text());
  }
  BULKHEAD_RETURN_IF_ERROR(health);
  if (!arguments.json) absl::PrintF("the service at %s serves\n", target);
  return 0;
}

}  // namespace

Command HealthCommand() {
  const auto arguments = std::make_shared<HealthArguments>();
  return {.name = "health",
          .about = "Check whether a service serves, for probes: exit code 0 or 1",
          .more = kHealthExamples,
          .options =
              {FoundTargetOption(arguments->target),
               {"--timeout", "Seconds in which the service must answer",
                Seconds(arguments->timeout_seconds)},
               {"--wait",
                "Seconds in which it may begin to serve: asks again each second while it is away, "
                "or a name has no address",
                Seconds(arguments->wait_seconds)},
               {"--json", "Print JSON", Flag(arguments->json)}},
          .run = [arguments] { return Run(*arguments); }};
}

}  // namespace bulkhead::tools

#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "bulkhead/service.h"
#include "server/base/error.h"
#include "tools/common/commands.h"
#include "tools/common/json.h"
#include "tools/common/own_services.h"

namespace bulkhead::tools {
namespace {

struct HealthArguments {
  std::string target;
  double timeout_seconds = 5;
  bool json = false;
};

absl::StatusOr<int> Run(const HealthArguments& arguments) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::string target, FindService(arguments.target));
  const absl::Status health = CheckHealth(target, absl::Seconds(arguments.timeout_seconds));
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
  return {
      .name = "health",
      .about = "Check whether a service serves, for probes: exit code 0 or 1",
      .more =
          "Asks gRPC's health check; over TLS any right is enough. Certificates come from a\n"
          "target file or the environment (BULKHEAD_TLS_CA, BULKHEAD_TLS_CERT, BULKHEAD_TLS_KEY).\n"
          "\n"
          "Examples:\n"
          "  bulkhead health\n"
          "  bulkhead health --target unix:/run/bulkhead/loader.sock --timeout 1\n"
          "  bulkhead health --target loader.yaml\n",
      .options = {FoundTargetOption(arguments->target),
                  {"--timeout", "Seconds in which the service must answer",
                   Seconds(arguments->timeout_seconds)},
                  {"--json", "Print JSON", Flag(arguments->json)}},
      .run = [arguments] { return Run(*arguments); }};
}

}  // namespace bulkhead::tools

#include "tools/recycle/recycle_command.h"

#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_format.h"
#include "bulkhead/service.h"
#include "tools/common/default_target.h"

namespace bulkhead::tools {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(30);

struct RecycleArguments {
  std::string target = DefaultTarget();
  std::string pipeline;
  std::optional<uint32_t> slot;
};

int Run(const RecycleArguments& arguments) {
  const absl::StatusOr<uint32_t> workers =
      RecycleWorkers(arguments.target, arguments.pipeline, arguments.slot, kDeadline);
  if (!workers.ok()) {
    absl::FPrintF(stderr, "bulkhead recycle: %s\n", std::string(workers.status().message()));
    return 1;
  }
  absl::PrintF("%d %s being replaced, one at a time; `bulkhead status` shows the progress\n",
               *workers, *workers == 1 ? "worker is" : "workers are");
  return *workers > 0 ? 0 : 1;
}

}  // namespace

void AddRecycleCommand(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<RecycleArguments>();
  CLI::App* command =
      app.add_subcommand("recycle", "Replace a service's workers, without a gap in its streams");
  command
      ->add_option("--target", arguments->target,
                   "Where the service listens: unix:/path or host:port")
      ->capture_default_str();
  command->add_option("--pipeline", arguments->pipeline,
                      "Only workers of this pipeline, by its name in `bulkhead status`");
  command->add_option("--slot", arguments->slot, "Only the worker in this slot");
  command->footer(
      "A fresh worker starts and warms up beside each one and takes over; the old one ends when "
      "it\n"
      "has finished its work. Exits with 1 when there is no such worker.\n"
      "\n"
      "Examples:\n"
      "  bulkhead recycle --target unix:/run/bulkhead.sock\n"
      "  bulkhead recycle --slot 2 --target unix:/run/bulkhead.sock\n");
  command->callback([arguments, &exit_code] { exit_code = Run(*arguments); });
}

}  // namespace bulkhead::tools

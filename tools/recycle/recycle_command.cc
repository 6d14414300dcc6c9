#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "bulkhead/service.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "tools/common/command_line.h"
#include "tools/common/commands.h"
#include "tools/common/json.h"
#include "tools/common/own_services.h"
#include "tools/common/progress_line.h"
#include "tools/common/status_message.h"

namespace bulkhead::tools {
namespace {

constexpr char kRecycleExamples[] =
    R"(A fresh worker starts and warms up beside each one and takes over; the old one ends when it
has finished its work. Exits with 1 when there is no such worker.

Examples:
  bulkhead recycle
  bulkhead recycle --slot 2 --target unix:/run/bulkhead.sock
)";

constexpr absl::Duration kRecycleDeadline = absl::Seconds(30);

struct RecycleArguments {
  std::string target;
  std::string pipeline;
  std::optional<uint32_t> slot;
  bool json = false;
};

// Why no worker is replaced, and which there are if the service tells this client.
std::string NoSuchWorker(const RecycleArguments& arguments, const std::string& target) {
  std::string text = "there is no worker";
  if (arguments.slot.has_value()) absl::StrAppend(&text, " in slot ", *arguments.slot);
  if (!arguments.pipeline.empty()) absl::StrAppend(&text, " of pipeline ", arguments.pipeline);
  const auto status = GetStatusMessage(target, kRecycleDeadline);
  if (!status.ok()) return text;
  std::set<std::string> workers;
  for (const v1::WorkerStatus& worker : status->workers()) {
    if (worker.role() != "pipeline") continue;
    workers.insert(
        absl::StrCat("slot ", worker.slot(), " of pipeline ", PrintableLines(worker.pipeline())));
  }
  return absl::StrCat(text,
                      workers.empty() ? "; none runs, since no stream is open" : "; there are ",
                      absl::StrJoin(workers, ", "));
}

absl::StatusOr<int> Run(const RecycleArguments& arguments) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::string target, FindService(arguments.target));
  BULKHEAD_ASSIGN_OR_RETURN(
      const uint32_t workers,
      RecycleWorkers(target, arguments.pipeline, arguments.slot, kRecycleDeadline));
  if (workers == 0) {
    Say(NoSuchWorker(arguments, target));
  }
  if (arguments.json) {
    absl::PrintF("%s\n", JsonObject().Add("workers", uint64_t{workers}).Text());
  } else if (workers > 0) {
    absl::PrintF("%d %s being replaced, one at a time; `bulkhead status` shows the progress\n",
                 workers, workers == 1 ? "worker is" : "workers are");
  }
  return workers > 0 ? 0 : kFailed;
}

}  // namespace

Command RecycleCommand() {
  const auto arguments = std::make_shared<RecycleArguments>();
  Value slot = Number([arguments](uint64_t number) { arguments->slot = number; }, 0, 0,
                      std::numeric_limits<uint32_t>::max(), std::numeric_limits<uint32_t>::max());
  slot.preset.clear();
  return {
      .name = "recycle",
      .about = "Replace a service's workers, without a gap in its streams",
      .more = kRecycleExamples,
      .options = {FoundTargetOption(arguments->target),
                  {"--pipeline", "Only workers of this pipeline, by its name in `bulkhead status`",
                   Text(arguments->pipeline, "NAME")},
                  {"--slot", "Only the worker in this slot", slot},
                  {"--json", "Print how many are being replaced as JSON", Flag(arguments->json)}},
      .run = [arguments] { return Run(*arguments); }};
}

}  // namespace bulkhead::tools

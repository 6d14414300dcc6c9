#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "bulkhead/service.h"
#include "server/base/error.h"
#include "tools/common/command_line.h"
#include "tools/common/commands.h"
#include "tools/common/own_services.h"
#include "tools/trace/timeline.h"
#include "tools/trace/trace_summary.h"

namespace bulkhead::tools {
namespace {

constexpr char kTraceExamples[] =
    R"(One time line of leases, samples, stages and waits of every worker's threads, and of the
batches of every stream until its client returns them. Costs nothing while none is taken.
Exits with 1 when no such stream was open.

Examples:
  bulkhead trace --out t.json
  bulkhead trace --out t.json --seconds 20 --stream train --target unix:/run/bulkhead.sock
  bulkhead trace --out t.json --batch 40-42       one that is not made yet; ends with it
)";

struct TraceArgumentsGiven {
  std::string target;
  std::string out;
  double seconds = 5;
  std::string stream;
  std::optional<BatchRange> batches;
  uint64_t events = 1'000'000;
  bool json = false;
};

// "7" or "7-9".
Value Batches(std::optional<BatchRange>& range) {
  return {.word = "N|N-M", .take = [&range](const std::string& text) -> std::string {
            const std::vector<std::string> ends = absl::StrSplit(text, absl::MaxSplits('-', 1));
            BatchRange read;
            const bool sound = absl::SimpleAtoi(ends.front(), &read.first) &&
                               absl::SimpleAtoi(ends.back(), &read.last) && read.first <= read.last;
            if (!sound) return absl::StrCat("'", text, "' is no number, or two such as 7-9");
            range = read;
            return "";
          }};
}

absl::StatusOr<int> Run(const TraceArgumentsGiven& arguments) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::string target, FindService(arguments.target));
  Timeline timeline(arguments.batches, arguments.events);
  TraceOptions options;
  options.duration = absl::Seconds(arguments.seconds);
  options.stream = arguments.stream;
  BULKHEAD_RETURN_IF_ERROR(TraceService(target, options, [&](const std::string& bytes) {
    v1::TraceResponse part;
    return part.ParseFromString(bytes) && timeline.Take(part);
  }));
  timeline.Arrange();
  if (timeline.streams().empty()) {
    return absl::NotFoundError(
        absl::StrCat(arguments.stream.empty()
                         ? "no stream was open meanwhile"
                         : absl::StrCat("no stream ", arguments.stream, " was open meanwhile"),
                     "; ", arguments.out, " was not written"));
  }
  std::ofstream file(arguments.out);
  WriteTimeline(timeline, file);
  file.close();
  if (!file) {
    return absl::UnavailableError(
        absl::StrCat(arguments.out, ": cannot be written: ", std::strerror(errno)));
  }
  const TraceSummary summary = SummarizeTimeline(timeline);
  absl::PrintF("%s", arguments.json ? SummaryJson(summary).Text() + "\n" : SummaryText(summary));
  if (timeline.is_full()) {
    absl::FPrintF(stderr, "  it ends after %d events; --events takes more\n", arguments.events);
  }
  if (arguments.batches.has_value() && timeline.batches().empty()) {
    absl::FPrintF(stderr, "none of these batches was made meanwhile\n");
    return kFailed;
  }
  if (arguments.json) return 0;
  absl::PrintF("%s opens at https://ui.perfetto.dev\n", arguments.out);
  return 0;
}

}  // namespace

Command TraceCommand() {
  const auto arguments = std::make_shared<TraceArgumentsGiven>();
  return {
      .name = "trace",
      .about = "Record what a running service does, for Perfetto",
      .more = kTraceExamples,
      .options = {FoundTargetOption(arguments->target),
                  {"--out", "File to write", OutputPath(arguments->out, ".json"), true},
                  {"--seconds", "How long to record; at most 60", Seconds(arguments->seconds, 60)},
                  {"--stream", "Only streams with this name in `bulkhead status`",
                   Text(arguments->stream, "NAME")},
                  {"--batch", "Only these batches of each stream, numbered from 0 when it opens",
                   Batches(arguments->batches)},
                  {"--events", "Stop after this many events",
                   Number(arguments->events, 1, 100'000'000)},
                  {"--json", "Print the summary as JSON", Flag(arguments->json)}},
      .run = [arguments] { return Run(*arguments); }};
}

}  // namespace bulkhead::tools

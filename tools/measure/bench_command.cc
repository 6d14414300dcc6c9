#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "server/base/error.h"
#include "tools/common/command_line.h"
#include "tools/common/commands.h"
#include "tools/common/progress_line.h"
#include "tools/common/service_options.h"
#include "tools/common/stream_run.h"
#include "tools/local/local_pipeline.h"
#include "tools/measure/bench_report.h"
#include "tools/measure/decode_limit.h"
#include "tools/measure/in_process.h"
#include "tools/measure/leak.h"
#include "tools/measure/recovery.h"

namespace bulkhead::tools {
namespace {

constexpr char kRunExamples[] =
    R"(samples_per_second and bytes_per_second are measured from the arrival of the first batch to
that of the last, so they exclude start-up; first_batch_seconds is start-up, from the start
of this process. Memory values are the highest seen, without arenas.

Examples:
  bulkhead bench run photos/tfrecord.yaml --json
  bulkhead bench run train.yaml --batches 200 --workers 2 --threads 1
  bulkhead bench run train.yaml --epochs-before 1
  bulkhead bench run train.yaml --in-process --threads 2
  bulkhead bench run train.yaml --target unix:/run/bulkhead/bulkhead.sock
)";

constexpr char kLimitExamples[] =
    R"(Examples:
  bulkhead bench decode-limit photos/folder
  bulkhead bench decode-limit photos/folder --threads 2 --repeat 3 --json
)";

struct RunArguments {
  std::string spec;
  ServiceOptions service;
  uint64_t batches = 0;
  uint64_t epochs_before = 0;
  bool in_process = false;
  bool json = false;
  bool no_digest = false;
};

absl::StatusOr<StreamRunReport> RunAsLibrary(const RunArguments& arguments) {
  return RunInProcess({.spec = arguments.spec,
                       .threads = std::max(1u, arguments.service.own.threads),
                       .batches = arguments.batches,
                       .digest = !arguments.no_digest,
                       .code = arguments.service.code});
}

absl::StatusOr<StreamRunReport> RunThroughService(const RunArguments& arguments) {
  SpecSource source = SpecFile(arguments.spec);
  if (arguments.epochs_before > 0) {
    BULKHEAD_ASSIGN_OR_RETURN(v1::PipelineSpec spec, ReadSpecFile(arguments.spec));
    source = SpecOfMoreEpochs(std::move(spec), arguments.epochs_before, arguments.spec);
  }
  ProgressLine line;
  StreamRunOptions options;
  options.loader = arguments.service.ForLoader(std::move(source), line);
  options.epochs_before = arguments.epochs_before;
  options.batches = arguments.batches;
  options.digest = !arguments.no_digest;
  return RunStream(options, [](const StreamRunTick&) {});
}

absl::Status RunBench(const RunArguments& arguments) {
  BULKHEAD_ASSIGN_OR_RETURN(const StreamRunReport report, arguments.in_process
                                                              ? RunAsLibrary(arguments)
                                                              : RunThroughService(arguments));
  const std::string text =
      arguments.json ? RunReportJson(report, arguments.spec).Text() : RunReportText(report);
  std::printf("%s\n", text.c_str());
  return absl::OkStatus();
}

Command RunCommand() {
  const auto arguments = std::make_shared<RunArguments>();
  Command command{
      .name = "run",
      .about = "Take batches as fast as they arrive, and measure",
      .more = kRunExamples,
      .options = {{"SPEC", "The spec, YAML or JSON", SpecPath(arguments->spec), true},
                  {"--batches",
                   "Stop after this many; left out: at the stream's end, or after one epoch of a "
                   "stream without end",
                   Number(arguments->batches, 1)},
                  {"--epochs-before",
                   "Epochs to run first without measuring, in addition to those of the spec: what "
                   "the first one learns about the data speeds up later ones",
                   Number(arguments->epochs_before)},
                  {"--in-process",
                   "Run the pipeline as a library in this process, in --threads threads, to see "
                   "what service, workers and transport cost",
                   Flag(arguments->in_process),
                   false,
                   {"--target", "--workers", "--cache-dir", "--epochs-before", "--worker-quota",
                    "--memory-budget", "--worker-hang-timeout"}},
                  {"--json", "Print JSON", Flag(arguments->json)},
                  {"--no-digest",
                   "Do not compute the SHA-256 of the delivered tensors, which costs CPU time",
                   Flag(arguments->no_digest)}},
      .run = [arguments] { return Done(RunBench(*arguments)); }};
  Append(arguments->service.Options(), command.options);
  return command;
}

constexpr char kRecoveryExamples[] =
    R"(Starts services of its own, takes batches as fast as they come, and kills with SIGKILL at
random times. A figure is the longest gap between two batches after the kill, less the median
gap, in seconds.

Examples:
  bulkhead bench recovery photos/tfrecord.yaml --json
)";

struct RecoveryArguments {
  RecoveryOptions options;
  bool json = false;
};

absl::Status RunRecovery(const RecoveryArguments& arguments) {
  ProgressLine line;
  BULKHEAD_ASSIGN_OR_RETURN(const RecoveryReport report,
                            MeasureRecovery(arguments.options, [&](const std::string& text) {
                              if (line.Due()) line.Show(text);
                            }));
  line.Finish("recovery: measured");
  const std::string text =
      arguments.json ? RecoveryJson(report, arguments.options).Text() : RecoveryText(report);
  std::printf("%s\n", text.c_str());
  return absl::OkStatus();
}

Command RecoveryCommand() {
  const auto arguments = std::make_shared<RecoveryArguments>();
  RecoveryOptions& options = arguments->options;
  Command command{.name = "recovery",
                  .about = "Measure what a killed worker or service costs the trainer",
                  .more = kRecoveryExamples,
                  .options = {{"SPEC", "The spec, YAML or JSON", SpecPath(options.spec), true},
                              {"--trials", "Trials per fault", Number(options.trials, 1, 10'000)},
                              TransportOption(options.transport),
                              {"--seed", "Seed of the times of the kills and the workers chosen",
                               Number(options.seed)},
                              {"--json", "Print JSON", Flag(arguments->json)}},
                  .run = [arguments] { return Done(RunRecovery(*arguments)); }};
  Append(options.code.Options(), command.options);
  return command;
}

constexpr char kLeakExamples[] =
    R"(Starts two services with one worker of one thread each: in one a stage leaks with every
sample, in the other it maps, touches and unmaps as much memory. They take turns. The spec's
`epochs` is ignored.

Examples:
  bulkhead bench leak photos/tfrecord.yaml
  bulkhead bench leak photos/tfrecord.yaml --samples 20000 --json
  bulkhead bench leak photos/tfrecord.yaml --fault python --every 20
  taskset -c 0 bulkhead bench leak photos/tfrecord.yaml   with one core for all
)";

struct LeakArguments {
  LeakOptions options;
  bool json = false;
};

absl::StatusOr<int> RunLeak(const LeakArguments& arguments) {
  ProgressLine line;
  BULKHEAD_ASSIGN_OR_RETURN(
      const LeakReport report,
      MeasureLeak(arguments.options, [&](const std::string& text) { line.Show(text); }));
  line.Finish("leak: measured");
  const std::string text = arguments.json ? LeakJson(report, arguments.options).Text() + "\n"
                                          : LeakText(report, arguments.options);
  std::fputs(text.c_str(), stdout);
  return report.digests_equal ? 0 : kFailed;
}

Command LeakCommand() {
  const auto arguments = std::make_shared<LeakArguments>();
  LeakOptions& options = arguments->options;
  Command command{
      .name = "leak",
      .about = "Measure what a stage that leaks costs the trainer",
      .more = kLeakExamples,
      .options = {{"SPEC", "The spec, YAML or JSON", SpecPath(options.spec), true},
                  {"--samples", "Samples per run", Number(options.samples)},
                  {"--rounds", "Rounds in which the runs take turns",
                   Number(options.rounds, 1, 1000)},
                  {"--leak", "Memory that each leak takes, such as 1MiB", Size(options.leak)},
                  {"--fault", "Kind of leak",
                   Choice(options.fault, {"leak", "leak_mmap", "python"})},
                  {"--every", "Leak once in this many samples", Number(options.every, 1)},
                  {"--quota", "Quota of each worker", Size(options.quota)},
                  TransportOption(options.transport),
                  {"--json", "Print JSON", Flag(arguments->json)}},
      .run = [arguments] { return RunLeak(*arguments); }};
  Append(options.code.Options(), command.options);
  return command;
}

struct LimitArguments {
  std::string folder;
  int threads = 1;
  int repeat = 1;
  bool json = false;
};

absl::Status RunDecodeLimit(const LimitArguments& arguments) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<JpegFile> files, ReadJpegFiles(arguments.folder));
  BULKHEAD_ASSIGN_OR_RETURN(const DecodeLimit limit,
                            MeasureDecodeLimit(files, arguments.threads, arguments.repeat));
  if (arguments.json) {
    const JsonObject json = DecodeLimitJson(limit, files, arguments.threads, arguments.folder);
    std::printf("%s\n", json.Text().c_str());
  } else {
    absl::PrintF("%.1f images/s: %d images, %.1f MP, %.2f s, %d thread%s, full decode to RGB\n",
                 limit.images_per_second(), limit.images, limit.megapixels, limit.seconds,
                 arguments.threads, arguments.threads == 1 ? "" : "s");
  }
  return absl::OkStatus();
}

Command DecodeLimitCommand() {
  const auto arguments = std::make_shared<LimitArguments>();
  return {
      .name = "decode-limit",
      .about = "Measure how fast libjpeg-turbo alone decodes a folder fully to RGB",
      .more = kLimitExamples,
      .options = {{"FOLDER", "Folder with JPEG files, at any depth", Folder(arguments->folder),
                   true},
                  {"--threads", "Decode threads", Number(arguments->threads, 1, 1024)},
                  {"--repeat", "Times to decode each file", Number(arguments->repeat, 1, 100'000)},
                  {"--json", "Print JSON", Flag(arguments->json)}},
      .run = [arguments] { return Done(RunDecodeLimit(*arguments)); }};
}

}  // namespace

Command BenchCommand() {
  return {.name = "bench",
          .about = "Measure speed, recovery and leaks",
          .more =
              "Examples:\n"
              "  bulkhead bench run photos/tfrecord.yaml --workers 1 --threads 1 --json\n"
              "  bulkhead bench recovery photos/tfrecord.yaml --json\n"
              "  bulkhead bench leak photos/tfrecord.yaml\n"
              "  bulkhead bench decode-limit photos/folder --json\n",
          .commands = {RunCommand(), RecoveryCommand(), LeakCommand(), DecodeLimitCommand()}};
}

}  // namespace bulkhead::tools

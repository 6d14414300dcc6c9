#include "tools/measure/bench_command.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "server/base/error.h"
#include "tools/common/command_line.h"
#include "tools/common/machine.h"
#include "tools/common/progress_line.h"
#include "tools/common/stream_run.h"
#include "tools/common/transport_option.h"
#include "tools/local/local_pipeline.h"
#include "tools/local/longer_spec.h"
#include "tools/measure/bench_report.h"
#include "tools/measure/decode_limit.h"
#include "tools/measure/in_process.h"
#include "tools/measure/leak.h"
#include "tools/measure/leak_report.h"
#include "tools/measure/recovery.h"

namespace bulkhead::tools {
namespace {

constexpr char kRunExamples[] =
    "samples_per_second and bytes_per_second are measured from the arrival of the first batch to\n"
    "that of the last, so they exclude start-up; first_batch_seconds is start-up, from the start\n"
    "of this process. Memory values are the highest seen, without arenas.\n"
    "\n"
    "Examples:\n"
    "  bulkhead bench run --spec photos/tfrecord.yaml --json\n"
    "  bulkhead bench run --spec train.yaml --batches 200 --workers 2 --threads 1\n"
    "  bulkhead bench run --spec train.yaml --epochs-before 1\n"
    "  bulkhead bench run --spec train.yaml --in-process --threads 2\n"
    "  bulkhead bench run --spec train.yaml --target unix:/run/bulkhead/bulkhead.sock\n";

constexpr char kLimitExamples[] =
    "Examples:\n"
    "  bulkhead bench decode-limit photos/folder\n"
    "  bulkhead bench decode-limit photos/folder --threads 2 --repeat 3 --json\n";

int Fail(const char* command, const absl::Status& status) {
  std::fprintf(stderr, "bulkhead bench %s: %s\n", command, std::string(status.message()).c_str());
  return 1;
}

struct RunArguments {
  std::string spec;
  std::string target;
  Transport transport = Transport::kAuto;
  std::string cache_dir;
  uint64_t batches = 0;
  uint64_t epochs_before = 0;
  uint32_t workers = 0;
  uint32_t threads = 0;
  bool in_process = false;
  bool json = false;
  bool no_digest = false;
};

absl::StatusOr<StreamRunReport> RunAsLibrary(const RunArguments& arguments) {
  InProcessOptions options;
  options.spec = arguments.spec;
  options.threads = std::max(1u, arguments.threads);
  options.batches = arguments.batches;
  options.digest = !arguments.no_digest;
  return RunInProcess(options);
}

absl::StatusOr<StreamRunReport> RunThroughService(const RunArguments& arguments) {
  StreamRunOptions options;
  options.loader.spec = SpecFile(arguments.spec);
  if (arguments.epochs_before > 0) {
    BULKHEAD_ASSIGN_OR_RETURN(v1::PipelineSpec spec, ReadSpecFile(arguments.spec));
    options.loader.spec =
        SpecOfMoreEpochs(std::move(spec), arguments.epochs_before, arguments.spec);
  }
  options.epochs_before = arguments.epochs_before;
  options.loader.target = arguments.target;
  options.loader.transport = arguments.transport;
  options.loader.embedded.workers = arguments.workers;
  options.loader.embedded.threads = arguments.threads;
  options.loader.embedded.cache_dir = arguments.cache_dir;
  options.batches = arguments.batches;
  options.digest = !arguments.no_digest;
  return RunStream(options, [](const StreamRunTick&) {});
}

int RunBench(const RunArguments& arguments) {
  const absl::StatusOr<StreamRunReport> report =
      arguments.in_process ? RunAsLibrary(arguments) : RunThroughService(arguments);
  if (!report.ok()) return Fail("run", report.status());
  const std::string text =
      arguments.json ? RunReportJson(*report, arguments.spec).Text() : RunReportText(*report);
  std::printf("%s\n", text.c_str());
  return 0;
}

void AddRun(CLI::App& bench, int& exit_code) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command =
      bench.add_subcommand("run", "Take batches as fast as they arrive, and measure");
  command->footer(kRunExamples);
  command->add_option("--spec", arguments->spec, "The spec (YAML or JSON)")->required();
  command->add_option("--target", arguments->target,
                      "A running service: host:port or unix:/path; default: one of its own");
  command
      ->add_option("--batches", arguments->batches,
                   "Stop after this many; default: at the stream's end, or after one epoch of "
                   "a stream without end")
      ->check(AtLeastOne());
  command->add_option("--epochs-before", arguments->epochs_before,
                      "Epochs to run first without measuring, in addition to those of the spec: "
                      "what the first one learns about the data speeds up later ones");
  auto* workers = command->add_option("--workers", arguments->workers,
                                      "Worker processes, for a service of its own");
  auto* threads =
      command->add_option("--threads", arguments->threads,
                          "Threads of each worker, for a service of its own or --in-process");
  auto* cache = command->add_option("--cache-dir", arguments->cache_dir,
                                    "Folder for record indexes, for a service of its own");
  workers->check(AtLeastOne());
  threads->check(AtLeastOne());
  // A running service has its own workers and its own cache.
  for (CLI::Option* option : {workers, threads, cache}) {
    option->excludes(command->get_option("--target"));
  }
  AddTransportOption(*command, arguments->transport);
  command
      ->add_flag("--in-process", arguments->in_process,
                 "Run the pipeline as a library in this process, in --threads threads, to see what "
                 "service, workers and transport cost")
      ->excludes("--target")
      ->excludes("--workers")
      ->excludes("--cache-dir")
      ->excludes("--epochs-before");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->add_flag("--no-digest", arguments->no_digest,
                    "Do not compute the SHA-256 of the delivered tensors, which costs CPU time");
  command->callback([arguments, &exit_code] { exit_code = RunBench(*arguments); });
}

constexpr char kRecoveryExamples[] =
    "Starts services of its own, takes batches as fast as they come, and kills with SIGKILL at\n"
    "random times. A figure is the longest gap between two batches after the kill, less the "
    "median\n"
    "gap, in seconds.\n"
    "\n"
    "Examples:\n"
    "  bulkhead bench recovery --spec photos/tfrecord.yaml --json\n";

struct RecoveryArguments {
  RecoveryOptions options;
  bool json = false;
};

int RunRecovery(const RecoveryArguments& arguments) {
  ProgressLine line;
  const absl::StatusOr<RecoveryReport> report =
      MeasureRecovery(arguments.options, [&](const std::string& text) {
        if (line.Due()) line.Show(text);
      });
  if (!report.ok()) return Fail("recovery", report.status());
  line.Finish("recovery: measured");
  const std::string text =
      arguments.json ? RecoveryJson(*report, arguments.options).Text() : RecoveryText(*report);
  std::printf("%s\n", text.c_str());
  return 0;
}

void AddRecovery(CLI::App& bench, int& exit_code) {
  auto arguments = std::make_shared<RecoveryArguments>();
  CLI::App* command =
      bench.add_subcommand("recovery", "Measure what a killed worker or service costs the trainer");
  command->footer(kRecoveryExamples);
  command->add_option("--spec", arguments->options.spec, "The spec (YAML or JSON)")->required();
  command->add_option("--trials", arguments->options.trials, "Trials per fault")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  AddTransportOption(*command, arguments->options.transport);
  command
      ->add_option("--seed", arguments->options.seed,
                   "Seed of the times of the kills and the workers chosen")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments, &exit_code] { exit_code = RunRecovery(*arguments); });
}

constexpr char kLeakExamples[] =
    "Starts two services with one worker of one thread each: in one a stage leaks with every\n"
    "sample, in the other it maps, touches and unmaps as much memory. They take turns. The spec's\n"
    "`epochs` is ignored.\n"
    "\n"
    "Examples:\n"
    "  bulkhead bench leak --spec photos/tfrecord.yaml\n"
    "  bulkhead bench leak --spec photos/tfrecord.yaml --samples 20000 --json\n"
    "  bulkhead bench leak --spec photos/tfrecord.yaml --fault python --every 20\n"
    "  taskset -c 0 bulkhead bench leak --spec photos/tfrecord.yaml   with one core for all\n";

struct LeakArguments {
  LeakOptions options;
  bool json = false;
};

int RunLeak(const LeakArguments& arguments) {
  ProgressLine line;
  const absl::StatusOr<LeakReport> report =
      MeasureLeak(arguments.options, [&](const std::string& text) { line.Show(text); });
  if (!report.ok()) return Fail("leak", report.status());
  line.Finish("leak: measured");
  const std::string text = arguments.json ? LeakJson(*report, arguments.options).Text() + "\n"
                                          : LeakText(*report, arguments.options);
  std::fputs(text.c_str(), stdout);
  return report->digests_equal ? 0 : 1;
}

void AddLeak(CLI::App& bench, int& exit_code) {
  auto arguments = std::make_shared<LeakArguments>();
  CLI::App* command =
      bench.add_subcommand("leak", "Measure what a stage that leaks costs the trainer");
  command->footer(kLeakExamples);
  LeakOptions& options = arguments->options;
  command->add_option("--spec", options.spec, "The spec (YAML or JSON)")->required();
  command->add_option("--samples", options.samples, "Samples per run")->capture_default_str();
  command->add_option("--rounds", options.rounds, "Rounds in which the runs take turns")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--leak", options.leak, "Memory that each leak takes, such as 1MiB")
      ->capture_default_str();
  command->add_option("--fault", options.fault, "Kind of leak")
      ->check(CLI::IsMember({"leak", "leak_mmap", "python"}))
      ->capture_default_str();
  command->add_option("--every", options.every, "Leak once in this many samples")
      ->check(AtLeastOne())
      ->capture_default_str();
  command->add_option("--python", options.python,
                      "Interpreter of a Python function; default: python3");
  command->add_option("--quota", options.quota, "Quota of each worker")->capture_default_str();
  AddTransportOption(*command, options.transport);
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments, &exit_code] { exit_code = RunLeak(*arguments); });
}

struct LimitArguments {
  std::string folder;
  int threads = 1;
  int repeat = 1;
  bool json = false;
};

int RunDecodeLimit(const LimitArguments& arguments) {
  const absl::StatusOr<std::vector<JpegFile>> files = ReadJpegFiles(arguments.folder);
  if (!files.ok()) return Fail("decode-limit", files.status());
  const absl::StatusOr<DecodeLimit> limit =
      MeasureDecodeLimit(*files, arguments.threads, arguments.repeat);
  if (!limit.ok()) return Fail("decode-limit", limit.status());
  if (arguments.json) {
    const JsonObject json = DecodeLimitJson(*limit, *files, arguments.threads, arguments.folder);
    std::printf("%s\n", json.Text().c_str());
  } else {
    std::printf("%.1f images/s: %s images, %.1f MP, %.2f s, %d thread%s, full decode to RGB\n",
                limit->images_per_second(), absl::StrFormat("%d", limit->images).c_str(),
                limit->megapixels, limit->seconds, arguments.threads,
                arguments.threads == 1 ? "" : "s");
  }
  return 0;
}

void AddDecodeLimit(CLI::App& bench, int& exit_code) {
  auto arguments = std::make_shared<LimitArguments>();
  CLI::App* command = bench.add_subcommand(
      "decode-limit", "Measure how fast libjpeg-turbo alone decodes a folder fully to RGB");
  command->footer(kLimitExamples);
  command->add_option("folder", arguments->folder, "Folder with JPEG files, at any depth")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("--threads", arguments->threads, "Decode threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--repeat", arguments->repeat, "Times to decode each file")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments, &exit_code] { exit_code = RunDecodeLimit(*arguments); });
}

}  // namespace

void AddBenchCommand(CLI::App& app, int& exit_code) {
  CLI::App* bench = app.add_subcommand("bench", "Measure speed, recovery and leaks");
  bench->require_subcommand(1);
  bench->footer(
      "Examples:\n"
      "  bulkhead bench run --spec photos/tfrecord.yaml --workers 1 --threads 1 --json\n"
      "  bulkhead bench recovery --spec photos/tfrecord.yaml --json\n"
      "  bulkhead bench leak --spec photos/tfrecord.yaml\n"
      "  bulkhead bench decode-limit photos/folder --json\n");
  AddRun(*bench, exit_code);
  AddRecovery(*bench, exit_code);
  AddLeak(*bench, exit_code);
  AddDecodeLimit(*bench, exit_code);
}

}  // namespace bulkhead::tools

#include "tools/stream/stream_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/base/utf8.h"
#include "server/os/files/filesystem.h"
#include "server/spec/yaml/yaml_tree.h"
#include "tools/common/command_line.h"
#include "tools/common/machine.h"
#include "tools/common/progress_line.h"
#include "tools/common/stream_run.h"
#include "tools/common/transport_option.h"
#include "tools/inspect/guess_spec.h"
#include "tools/inspect/spec_data.h"
#include "tools/local/local_pipeline.h"
#include "tools/measure/bench_report.h"

namespace bulkhead::tools {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  bulkhead stream train.yaml                        a spec of your own\n"
    "  bulkhead stream photos/                           a folder; its sub-folders are classes\n"
    "  bulkhead stream train.txt                         a list: path, then labels\n"
    "  bulkhead stream 'data/train-*.tfrecord' --feature image=img_raw\n";

struct StreamArguments {
  std::vector<std::string> data;
  std::vector<std::string> features;
  GuessOptions guess;
  std::string target;
  Transport transport = Transport::kAuto;
  uint64_t batches = 0;
  uint32_t workers = 0;
  uint32_t threads = 0;
  bool print_spec = false;
};

// A spec goes to the service as text, which cannot be sent where it is none; all else that is wrong
// with it is the service's to say.
absl::Status CheckIsText(const std::string& path) {
  const auto text = ReadPrefix(path, kMaxYamlBytes);
  if (!text.ok() || FirstByteThatIsNoText(*text) == absl::string_view::npos) {
    return absl::OkStatus();
  }
  return ReadSpecFile(path).status();
}

bool IsSpec(const std::vector<std::string>& data) {
  return data.size() == 1 && IsSpecFile(data[0]);
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "bulkhead stream: %s\n", std::string(status.message()).c_str());
  return 1;
}

// The service calls a spec that is no file "spec", which a user without a spec would not
// understand.
absl::Status NameGuessedSpec(const absl::Status& status, const StreamRunOptions& options) {
  if (!options.loader.spec.path.empty()) return status;
  std::vector<std::string> lines = absl::StrSplit(std::string(status.message()), '\n');
  for (std::string& line : lines) {
    if (absl::StartsWith(line, "spec:")) line.insert(0, "guessed (see --print-spec) ");
  }
  return absl::Status(status.code(), absl::StrJoin(lines, "\n"));
}

std::string TickText(const StreamRunTick& tick) {
  const StreamRunReport& report = tick.so_far;
  const double share =
      static_cast<double>(report.batches) / static_cast<double>(tick.batches_wanted);
  // The first batch alone has no rate.
  const std::string rate =
      report.gap_seconds.empty()
          ? ""
          : absl::StrFormat("%.0f samples/s  %s/s  ", report.samples_per_second,
                            HumanBytes(report.bytes_per_second));
  return absl::StrFormat(
      "%s %3.0f%%  batch %d of %d  %smemory: supervisor %s, workers %s, trainer %s",
      ProgressBar(share, 16), share * 100, report.batches, tick.batches_wanted, rate,
      HumanBytes(report.supervisor_memory_bytes), HumanBytes(report.workers_memory_bytes),
      HumanBytes(OwnMemoryBytes()));
}

void PrintSchema(const StreamInfo& info) {
  std::string text = absl::StrFormat("%d samples an epoch, batches of %d:", info.samples_per_epoch,
                                     info.batch_size);
  for (const TensorInfo& tensor : info.tensors) {
    absl::StrAppend(&text, " ", tensor.name, " ", ElementTypeName(tensor.dtype), "[",
                    absl::StrJoin(tensor.shape, ","), "]",
                    tensor.packing == Packing::kSamples
                        ? ""
                        : absl::StrCat(" (", PackingName(tensor.packing), ")"));
  }
  std::fprintf(stderr, "%s\n", text.c_str());
}

int RunStreamCommand(StreamArguments& arguments) {
  for (const std::string& feature : arguments.features) {
    const std::vector<std::string> sides = absl::StrSplit(feature, absl::MaxSplits('=', 1));
    if (sides.size() != 2 || (sides[0] != "image" && sides[0] != "label") || sides[1].empty()) {
      return Fail(absl::InvalidArgumentError(absl::StrCat(
          "--feature ", feature, ": write image=NAME or label=NAME, with the record's name")));
    }
    arguments.guess.features[sides[0]] = sides[1];
  }
  StreamRunOptions options;
  if (IsSpec(arguments.data)) {
    if (const absl::Status text = CheckIsText(arguments.data[0]); !text.ok()) return Fail(text);
    options.loader.spec = SpecFile(arguments.data[0]);
  } else {
    const absl::StatusOr<std::string> spec = GuessSpec(arguments.data, arguments.guess);
    if (!spec.ok()) return Fail(spec.status());
    if (arguments.print_spec) {
      std::fputs(spec->c_str(), stdout);
      return 0;
    }
    options.loader.spec = SpecText(*spec);
  }
  options.loader.target = arguments.target;
  options.loader.transport = arguments.transport;
  options.loader.embedded.workers = arguments.workers;
  options.loader.embedded.threads = arguments.threads;
  options.batches = arguments.batches;
  ProgressLine line;
  options.loader.on_progress = [&](const LoaderProgress& progress) {
    if (!line.Due()) return;
    line.Show(absl::StrFormat("preparing: %s, %d of %d files, %d records", progress.activity,
                              progress.files_done, progress.files_total, progress.records));
  };
  const absl::StatusOr<StreamRunReport> report = RunStream(options, [&](const StreamRunTick& tick) {
    if (tick.so_far.batches == 1) PrintSchema(tick.info);
    const bool last = tick.so_far.batches == tick.batches_wanted;
    if (last) {
      line.Finish(TickText(tick));
    } else if (line.Due()) {
      line.Show(TickText(tick));
    }
  });
  if (!report.ok()) return Fail(NameGuessedSpec(report.status(), options));
  std::printf("%s\n", RunReportText(*report).c_str());
  return 0;
}

}  // namespace

void AddStreamCommand(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<StreamArguments>();
  CLI::App* command = app.add_subcommand(
      "stream", "Stream a spec, a folder, a list or TFRecords, and show rate and memory");
  command->footer(kExamples);
  command
      ->add_option(
          "data", arguments->data,
          "A spec (.yaml, .json), a folder of images, an image list, or TFRecords or globs of them")
      ->required();
  command->add_option("--feature", arguments->features,
                      "TFRecords: image=NAME or label=NAME, if the records use other names");
  command->add_option("--batch", arguments->guess.batch, "Samples per batch, without a spec")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command->add_option("--size", arguments->guess.size, "Side of the crops, without a spec")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--batches", arguments->batches, "Stop after this many; default: one epoch")
      ->check(AtLeastOne());
  command->add_option("--workers", arguments->workers, "Worker processes")->check(AtLeastOne());
  command->add_option("--threads", arguments->threads, "Threads of each worker")
      ->check(AtLeastOne());
  command->add_option("--target", arguments->target,
                      "A running service: host:port or unix:/path; default: one of its own");
  AddTransportOption(*command, arguments->transport);
  command->add_flag("--print-spec", arguments->print_spec,
                    "Only print the spec that was inferred from the data");
  command->callback([arguments, command, &exit_code] {
    if (IsSpec(arguments->data)) {
      RefuseOptions(*command, {"--batch", "--size", "--feature", "--print-spec"},
                    "the spec sets this; the option is for data without a spec");
    }
    exit_code = RunStreamCommand(*arguments);
  });
}

}  // namespace bulkhead::tools

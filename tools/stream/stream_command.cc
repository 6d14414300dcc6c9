#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/base/utf8.h"
#include "server/os/files/filesystem.h"
#include "server/spec/yaml/yaml_tree.h"
#include "tools/common/commands.h"
#include "tools/common/machine.h"
#include "tools/common/progress_line.h"
#include "tools/common/service_options.h"
#include "tools/common/stream_run.h"
#include "tools/inspect/guess_spec.h"
#include "tools/inspect/spec_data.h"
#include "tools/local/local_pipeline.h"
#include "tools/measure/bench_report.h"

namespace bulkhead::tools {
namespace {

constexpr char kStreamExamples[] =
    R"(Examples:
  bulkhead stream train.yaml                        a spec of your own
  bulkhead stream photos/                           a folder; its sub-folders are classes
  bulkhead stream train.txt                         a list: path, then labels
  bulkhead stream 'data/train-*.tfrecord' --feature image=img_raw
)";

struct StreamArguments {
  std::vector<std::string> data;
  std::vector<std::string> features;
  GuessOptions guess;
  ServiceOptions service;
  uint64_t batches = 0;
  uint64_t epochs = 0;
  bool print_spec = false;
  bool json = false;
};

// A spec goes to the service as text, which cannot be sent where it is none; all else that is wrong
// with it is the service's to say.
absl::Status CheckIsText(const std::string& path) {
  if (IsObjectUrl(path)) return ReadSpecFile(path).status();
  const auto text = ReadPrefix(path, kMaxYamlBytes);
  if (!text.ok() || FirstByteThatIsNoText(*text) == absl::string_view::npos) {
    return absl::OkStatus();
  }
  return ReadSpecFile(path).status();
}

bool IsSpec(const std::vector<std::string>& data) {
  return data.size() == 1 && IsSpecFile(data[0]);
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
  const ServiceUse& use = report.service;
  const std::string of_service =
      use.is_known()
          ? absl::StrFormat("supervisor %s, workers %s, ", HumanBytes(use.supervisor_memory_bytes),
                            HumanBytes(use.workers_memory_bytes))
          : "";
  return absl::StrFormat("%s %3.0f%%  batch %d of %d  %smemory: %strainer %s",
                         ProgressBar(share, 16), share * 100, report.batches, tick.batches_wanted,
                         rate, of_service, HumanBytes(OwnMemoryBytes()));
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

absl::Status RunStreamCommand(StreamArguments& arguments) {
  for (const std::string& feature : arguments.features) {
    const std::vector<std::string> sides = absl::StrSplit(feature, absl::MaxSplits('=', 1));
    if (sides.size() != 2 || (sides[0] != "image" && sides[0] != "label") || sides[1].empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--feature ", feature, ": write image=NAME or label=NAME, with the record's name"));
    }
    arguments.guess.features[sides[0]] = sides[1];
  }
  SpecSource spec;
  if (IsSpec(arguments.data)) {
    BULKHEAD_RETURN_IF_ERROR(CheckIsText(arguments.data[0]));
    spec = SpecFile(arguments.data[0]);
  } else {
    BULKHEAD_ASSIGN_OR_RETURN(const std::string text, GuessSpec(arguments.data, arguments.guess));
    if (arguments.print_spec) {
      std::fputs(text.c_str(), stdout);
      return absl::OkStatus();
    }
    spec = SpecText(text);
  }
  ProgressLine line;
  StreamRunOptions options;
  options.loader = arguments.service.ForLoader(std::move(spec), line);
  options.batches = arguments.batches;
  options.epochs = arguments.epochs;
  const absl::StatusOr<StreamRunReport> report = RunStream(options, [&](const StreamRunTick& tick) {
    if (tick.so_far.batches == 1) PrintSchema(tick.info);
    const bool last = tick.so_far.batches == tick.batches_wanted;
    if (last) {
      line.Finish(TickText(tick));
    } else if (line.Due()) {
      line.Show(TickText(tick));
    }
  });
  if (!report.ok()) return NameGuessedSpec(report.status(), options);
  std::printf("%s\n",
              arguments.json
                  ? RunReportJson(*report, absl::StrJoin(arguments.data, " ")).Text().c_str()
                  : RunReportText(*report).c_str());
  return absl::OkStatus();
}

}  // namespace

Command StreamCommand() {
  const auto arguments = std::make_shared<StreamArguments>();
  Command command{
      .name = "stream",
      .about = "Stream a spec, a folder, a list or TFRecords, and show rate and memory",
      .more = kStreamExamples,
      .options =
          {{"DATA",
            "A spec (.yaml, .json), a folder of images, an image list, or TFRecords or "
            "globs of them",
            Texts(arguments->data, "DATA"), true},
           {"--feature", "TFRecords: image=NAME or label=NAME, if the records use other names",
            Texts(arguments->features, "OUR=NAME")},
           {"--batch", "Samples per batch, without a spec",
            Number(arguments->guess.batch, 1, 65536)},
           {"--size", "Side of the crops, without a spec", Number(arguments->guess.size, 1, 4096)},
           {"--epochs",
            "Stop after this many epochs; left out: all of the spec's, or one when it names none",
            Number(arguments->epochs, 1)},
           {"--batches", "Stop after this many, wherever an epoch ends",
            Number(arguments->batches, 1)},
           {"--print-spec", "Only print the spec that was inferred from the data",
            Flag(arguments->print_spec)},
           {"--json", "Print JSON", Flag(arguments->json)}},
      .run = [arguments] { return Done(RunStreamCommand(*arguments)); },
      .check =
          [arguments](const Given& given) {
            if (!IsSpec(arguments->data)) return absl::OkStatus();
            return Refuse(given, {"--batch", "--size", "--feature", "--print-spec"},
                          "the spec sets this; the option is for data without a spec");
          }};
  Append(arguments->service.Options(), command.options);
  return command;
}

}  // namespace bulkhead::tools

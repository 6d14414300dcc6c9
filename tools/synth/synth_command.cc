#include "tools/synth/synth_command.h"

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tools/common/command_line.h"
#include "tools/common/machine.h"
#include "tools/common/progress_line.h"
#include "tools/synth/dataset.h"
#include "tools/synth/size_range.h"

namespace bulkhead::tools {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  bulkhead synth photos                        1,000 photos as folder, list and TFRecords\n"
    "  bulkhead synth big --count 20000 --size 1024x768 --classes 100\n"
    "  bulkhead synth faces --schema face           img_raw, label, bbox; with and without faces\n"
    "  bulkhead synth numbers --schema range        0 … 9999 in five TFRecords\n";

SynthSchema ParseSchema(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  if (lower == "photos") return SynthSchema::kPhotos;
  if (lower == "face") return SynthSchema::kFace;
  if (lower == "range") return SynthSchema::kRange;
  throw CLI::ValidationError(
      "--schema", absl::StrCat("there is no schema '", name, "'; it is photos, face or range"));
}

int RunSynth(const SynthOptions& options) {
  const absl::Time begin = absl::Now();
  uint64_t written = 0;
  absl::Status status;
  {
    ProgressLine line;
    status = WriteDataset(options, [&](uint64_t done, uint64_t total) {
      written = done;
      if (!line.Due() && done != total) return;
      const double share = static_cast<double>(done) / static_cast<double>(total);
      const std::string text =
          absl::StrFormat("%s %3.0f%%  %d of %d", ProgressBar(share), share * 100, done, total);
      done == total ? line.Finish(text) : line.Show(text);
    });
  }
  if (!status.ok()) {
    std::fprintf(stderr, "bulkhead synth: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  std::printf("%s: wrote %s samples in %.1f s\n", options.out.c_str(),
              absl::StrCat(written).c_str(), absl::ToDoubleSeconds(absl::Now() - begin));
  return 0;
}

}  // namespace

void AddSynthCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<SynthOptions>();
  auto size = std::make_shared<std::string>("400x300..600x500");
  auto schema = std::make_shared<std::string>("photos");
  options->threads = UsableCpus();
  CLI::App* command =
      app.add_subcommand("synth", "Write a photo-like data set with labels and boxes");
  command->footer(kExamples);
  command->add_option("out", options->out, "Folder to write to; made if missing")->required();
  command
      ->add_option("--schema", *schema,
                   "photos: image, label, boxes; face: img_raw, label, bbox; range: var")
      ->capture_default_str();
  command->add_option("--count", options->count, "Photos to draw")
      ->check(CLI::Range(uint64_t{1}, uint64_t{10'000'000}))
      ->capture_default_str();
  command->add_option("--size", *size, "WIDTHxHEIGHT, or a range WxH..WxH")->capture_default_str();
  command->add_option("--classes", options->classes, "Classes of the photos")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "The same seed draws the same set")
      ->capture_default_str();
  command->add_flag("--force", options->force,
                    "Write into a folder that is not empty; an earlier set is replaced");
  command->callback([options, size, schema, command, &exit_code] {
    options->schema = ParseSchema(*schema);
    if (options->schema == SynthSchema::kRange) {
      RefuseOptions(*command, {"--count", "--size", "--classes"},
                    "the numbers of --schema range are always 0 to 9999, without photos");
    }
    if (!ParseSizeRange(*size, options->size)) {
      throw CLI::ValidationError(
          "--size", absl::StrCat("'", *size, "' is not WIDTHxHEIGHT or WxH..WxH with sides of ",
                                 kMinSide, " to ", kMaxSide, " pixels"));
    }
    exit_code = RunSynth(*options);
  });
}

}  // namespace bulkhead::tools

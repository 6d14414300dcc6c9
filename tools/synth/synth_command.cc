#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/error.h"
#include "tools/common/clock.h"
#include "tools/common/commands.h"
#include "tools/common/json.h"
#include "tools/common/machine.h"
#include "tools/common/progress_line.h"
#include "tools/synth/dataset.h"

namespace bulkhead::tools {
namespace {

constexpr char kSynthExamples[] =
    R"(Examples:
  bulkhead synth photos                        1,000 photos as folder, list and TFRecords
  bulkhead synth big --count 20000 --size 1024x768 --classes 100
  bulkhead synth faces --schema face           img_raw, label, bbox; with and without faces
  bulkhead synth numbers --schema range        0 … 9999 in five TFRecords
)";

absl::Status RunSynth(const SynthOptions& options, bool json) {
  const absl::Time begin = SteadyNow();
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
  BULKHEAD_RETURN_IF_ERROR(status);
  const double seconds = absl::ToDoubleSeconds(SteadyNow() - begin);
  if (json) {
    absl::PrintF("%s\n", JsonObject()
                             .Add("out", options.out)
                             .Add("samples", written)
                             .Add("seconds", seconds)
                             .Text());
  } else {
    absl::PrintF("%s: wrote %d samples in %.1f s\n", options.out, written, seconds);
  }
  return absl::OkStatus();
}

// The options' values as they were written.
struct SynthTexts {
  std::string schema = "photos";
  std::string size = "400x300..600x500";
  bool json = false;
};

// Takes over what `texts` say; what is wrong with them.
absl::Status Understand(const SynthTexts& texts, const Given& given, SynthOptions& options) {
  options.schema = texts.schema == "photos" ? SynthSchema::kPhotos
                   : texts.schema == "face" ? SynthSchema::kFace
                                            : SynthSchema::kRange;
  if (options.schema == SynthSchema::kRange) {
    BULKHEAD_RETURN_IF_ERROR(
        Refuse(given, {"--count", "--size", "--classes"},
               "the numbers of --schema range are always 0 to 9999, without photos"));
  }
  if (ParseSizeRange(texts.size, options.size)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--size: '", texts.size,
                                                 "' is not WIDTHxHEIGHT or WxH..WxH with sides of ",
                                                 kMinSide, " to ", kMaxSide, " pixels"));
}

}  // namespace

Command SynthCommand() {
  const auto options = std::make_shared<SynthOptions>();
  const auto texts = std::make_shared<SynthTexts>();
  options->threads = UsableCpus();
  return {.name = "synth",
          .about = "Write a photo-like data set with labels and boxes",
          .more = kSynthExamples,
          .options =
              {{"OUT", "Folder to write to; made if missing", Text(options->out, "OUT"), true},
               {"--schema", "photos: image, label, boxes; face: img_raw, label, bbox; range: var",
                Choice(texts->schema, {"photos", "face", "range"})},
               {"--count", "Photos to draw", Number(options->count, 1, 10'000'000)},
               {"--size", "Sides in pixels, or a range of them", Text(texts->size, "WxH[..WxH]")},
               {"--classes", "Classes of the photos", Number(options->classes, 1, 1000)},
               {"--seed", "The same seed draws the same set", Number(options->seed)},
               {"--force", "Write into a folder that is not empty; an earlier set is replaced",
                Flag(options->force)},
               {"--json", "Print JSON", Flag(texts->json)}},
          .run = [options, texts] { return Done(RunSynth(*options, texts->json)); },
          .check = [options,
                    texts](const Given& given) { return Understand(*texts, given, *options); }};
}

}  // namespace bulkhead::tools

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bulkhead/loader.h"
#include "bulkhead/service.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/data/published_index.h"
#include "server/spec/source_chain.h"
#include "server/spec/stage_signature.h"
#include "tools/common/commands.h"
#include "tools/common/json.h"
#include "tools/common/progress_line.h"
#include "tools/common/service_options.h"
#include "tools/common/status_message.h"
#include "tools/index/publish.h"
#include "tools/local/local_pipeline.h"

namespace bulkhead::tools {
namespace {

constexpr absl::Duration kStatusDeadline = absl::Seconds(30);
constexpr absl::Duration kBatchDeadline = absl::Seconds(300);

struct IndexArguments {
  std::string spec;
  ServiceOptions service;
  bool jpeg_seek = false;
  bool coefficients = false;
  bool publish = false;
  bool json = false;
};

// Keeps of the stages only what decodes images, where that is simple. So no code of the user's
// runs, and what workers keep serves all pipelines: what is made beside user code serves only that
// code.
void KeepDecoding(v1::PipelineSpec& spec) {
  constexpr uint32_t kSide = 8;
  v1::PipelineSpec decoding = spec;
  decoding.clear_stages();
  decoding.clear_batch_stages();
  decoding.clear_outputs();
  for (const v1::Stage& stage : spec.stages()) {
    if (!stage.has_decode_image()) {
      // What it makes may be decoded.
      if (decoding.stages().empty()) return;
      continue;
    }
    const std::string input = StageReads(stage)[0];
    v1::Stage& decode = *decoding.add_stages() = stage;
    decode.mutable_decode_image()->set_keep_16_bit(false);  // a resize takes 8
    v1::Resize& resize = *decoding.add_stages()->mutable_resize();
    resize.set_input(input);
    resize.add_size(kSide);
    decoding.add_outputs(input);
  }
  if (!decoding.stages().empty()) spec = std::move(decoding);
}

std::function<void(const LoaderProgress&)> TellFilesTo(ProgressLine& line) {
  return [&line](const LoaderProgress& progress) {
    if (progress.files_total == 0 || !line.Due()) return;
    const double share =
        static_cast<double>(progress.files_done) / static_cast<double>(progress.files_total);
    line.Show(absl::StrFormat("%s %d of %d files, %d records", ProgressBar(share),
                              progress.files_done, progress.files_total, progress.records));
  };
}

// Makes record indexes, and nothing else: a stream's workers would keep what they decode. Returns
// the samples of an epoch.
absl::StatusOr<uint64_t> IndexRecords(const IndexArguments& arguments, const v1::PipelineSpec& spec,
                                      ProgressLine& line) {
  DescribeOptions options;
  options.spec = EndlessSpec(spec, arguments.spec);
  options.target = arguments.service.target;
  options.embedded = arguments.service.Embedded();
  options.deadline = absl::InfiniteDuration();
  options.on_progress = TellFilesTo(line);
  BULKHEAD_ASSIGN_OR_RETURN(const SpecDescription described, Describe(options));
  return described.samples_per_epoch.value_or(0);
}

absl::StatusOr<std::unique_ptr<Loader>> Open(const IndexArguments& arguments, v1::PipelineSpec spec,
                                             ProgressLine& line) {
  // Every sample once.
  spec.mutable_batch()->set_last(v1::LAST_BATCH_PARTIAL);
  if (arguments.coefficients && !arguments.jpeg_seek) KeepDecoding(spec);
  LoaderOptions options =
      arguments.service.ForLoader(EndlessSpec(std::move(spec), arguments.spec), line);
  options.keeps_all = arguments.coefficients;
  options.on_progress = TellFilesTo(line);
  return Loader::Open(std::move(options));
}

// Streams an epoch, for what the workers make in passing.
absl::Status StreamEpoch(Loader& loader, ProgressLine& line) {
  const uint64_t batches = loader.info().batches_left_in_epoch;
  for (uint64_t done = 0; done < batches; ++done) {
    if (line.Due()) {
      line.Show(absl::StrFormat("%s batch %d of %d",
                                ProgressBar(static_cast<double>(done) / batches), done, batches));
    }
    BULKHEAD_RETURN_IF_ERROR(loader.Next(kBatchDeadline).status());
  }
  return absl::OkStatus();
}

// What workers keep of JPEG images, as the status of a service tells it.
struct KeptOfImages {
  const char* name;
  const char* option;  // of the service
  bool asked = false;  // for them
  v1::CacheStatus cache;
  uint64_t made = 0;
  uint64_t found = 0;
};

using AllKept = std::array<KeptOfImages, 2>;

AllKept KeptBy(const v1::GetStatusResponse& status, const IndexArguments& arguments) {
  const v1::JpegDecodes& jpeg = status.jpeg();
  return {{{"seek entries", "--cache-bytes", arguments.jpeg_seek, status.seek_cache(),
            jpeg.entries_made(), jpeg.entries_found()},
           {"coefficients", "--coefficient-cache-bytes", arguments.coefficients,
            status.coefficient_cache(), jpeg.coefficients_made(), jpeg.coefficients_found()}}};
}

absl::StatusOr<AllKept> AskForKept(const Loader& loader, const IndexArguments& arguments) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::GetStatusResponse status,
                            GetStatusMessage(loader.target(), kStatusDeadline));
  return KeptBy(status, arguments);
}

// Once the workers rest: what they did for the last batches is counted a little later.
absl::StatusOr<AllKept> AskForKeptAtRest(const Loader& loader, const IndexArguments& arguments) {
  constexpr int kMostLooks = 50;
  const auto counts = [](const AllKept& all) {
    return std::array{all[0].made, all[0].found, all[1].made, all[1].found};
  };
  auto last = AskForKept(loader, arguments);
  int same = 0;
  for (int look = 0; look < kMostLooks && last.ok() && same < 3; ++look) {
    absl::SleepFor(absl::Milliseconds(100));
    auto now = AskForKept(loader, arguments);
    same = now.ok() && counts(*now) == counts(*last) ? same + 1 : 0;
    last = std::move(now);
  }
  return last;
}

// `before`: what a service that ran already had made until the loader was opened.
absl::Status KeepOfImages(Loader& loader, const AllKept& before, const IndexArguments& arguments,
                          ProgressLine& line, JsonObject& json) {
  BULKHEAD_ASSIGN_OR_RETURN(const auto now, AskForKept(loader, arguments));
  for (const KeptOfImages& kept : now) {
    if (!kept.asked || kept.cache.most_bytes() != 0) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("the service keeps no ", kept.name, ": ", kept.cache.reason()));
  }
  BULKHEAD_RETURN_IF_ERROR(StreamEpoch(loader, line));
  BULKHEAD_ASSIGN_OR_RETURN(const auto after, AskForKeptAtRest(loader, arguments));
  absl::Status all;
  for (size_t i = 0; i < after.size(); ++i) {
    const KeptOfImages& kept = after[i];
    const uint64_t made = kept.made - before[i].made;
    const uint64_t found = kept.found - before[i].found;
    // A service also keeps coefficients in passing.
    if (!kept.asked && made == 0) continue;
    const std::string key = absl::StrReplaceAll(kept.name, {{" ", "_"}});
    json.Add(absl::StrCat(key, "_made"), made)
        .Add(absl::StrCat(key, "_found"), found)
        .Add(absl::StrCat(key, "_bytes"), kept.cache.bytes())
        .Add(absl::StrCat(key, "_most_bytes"), kept.cache.most_bytes());
    line.Finish(absl::StrFormat("%s: %d were made now; the segments take %s of %s", kept.name, made,
                                FormatBytes(kept.cache.bytes()),
                                FormatBytes(kept.cache.most_bytes())));
    if (kept.asked && !kept.cache.reason().empty()) {
      all.Update(absl::ResourceExhaustedError(
          absl::StrCat("not all ", kept.name, " could be kept: ", kept.cache.reason(),
                       "; give the service more ", kept.option, ", or its disk more room")));
    }
  }
  return all;
}

absl::Status Publish(const IndexArguments& arguments) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::PipelineSpec spec, ReadSpecFile(arguments.spec));
  ProgressLine line;
  const auto published =
      PublishIndexes(spec, SpecFolder(arguments.spec), [&](absl::string_view text) {
        if (line.Due()) line.Show(text);
      });
  if (!published.ok()) return published.status();
  line.Finish(absl::StrFormat(
      "published: %d of %d indexes, %s, were put beside their objects; %d lay there already. The "
      "objects have %d records in %s",
      published->written, published->objects, FormatBytes(published->written_bytes),
      published->objects - published->written - published->too_large, published->records,
      FormatBytes(published->object_bytes)));
  if (arguments.json) {
    JsonObject json;
    json.Add("objects", published->objects)
        .Add("object_bytes", published->object_bytes)
        .Add("records", published->records)
        .Add("published", published->written)
        .Add("published_bytes", published->written_bytes)
        .Add("too_large", published->too_large);
    absl::PrintF("%s\n", json.Text());
  }
  if (published->too_large == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      published->too_large, " of the indexes are larger than ", FormatBytes(kMostPublishedBytes),
      ", or than half of their object and 1 MiB, and were not published; divide the objects, or "
      "make the records larger"));
}

absl::Status MakeIndex(const IndexArguments& arguments) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::PipelineSpec spec, ReadSpecFile(arguments.spec));
  if (arguments.jpeg_seek && !MayDecodeParts(spec)) {
    return absl::InvalidArgumentError(absl::StrCat(
        arguments.spec, ": no crop follows decode_image, so seek entries would not help"));
  }
  if (arguments.coefficients && !DecodesImages(spec)) {
    return absl::InvalidArgumentError(
        absl::StrCat(arguments.spec, ": no stage decodes images, so there are no coefficients"));
  }
  ProgressLine line;
  const bool streams = arguments.jpeg_seek || arguments.coefficients;
  std::unique_ptr<Loader> loader;
  uint64_t samples = 0;
  v1::GetStatusResponse before;  // if there is none, Open says why
  if (streams) {
    const std::string& target = arguments.service.target;
    if (!target.empty()) before = GetStatusMessage(target, kStatusDeadline).value_or(before);
    BULKHEAD_ASSIGN_OR_RETURN(loader, Open(arguments, spec, line));
    samples = loader->info().samples_per_epoch;
  } else {
    BULKHEAD_ASSIGN_OR_RETURN(samples, IndexRecords(arguments, spec, line));
  }
  line.Finish(absl::StrFormat("indexed: %d samples an epoch", samples));
  JsonObject json;
  json.Add("samples_per_epoch", samples);
  if (streams) {
    BULKHEAD_RETURN_IF_ERROR(
        KeepOfImages(*loader, KeptBy(before, arguments), arguments, line, json));
  }
  if (arguments.json) absl::PrintF("%s\n", json.Text());
  return absl::OkStatus();
}

}  // namespace

Command IndexCommand() {
  const auto arguments = std::make_shared<IndexArguments>();
  Command command{
      .name = "index",
      .about = "Index a spec's data before a training needs it",
      .more =
          "The service does the same by itself: record indexes when a stream is opened, seek "
          "entries\n"
          "and coefficients while the first epoch is decoded. With --target they go to that "
          "service's\n"
          "cache folder.\n"
          "\n"
          "With --publish the record index of each object in s3:// or gs:// is put beside it, as\n"
          "OBJECT.bulkhead-index: services then read that, not the whole object. An object that "
          "is\n"
          "replaced needs a new one; until then it is read whole, as without.\n"
          "\n"
          "Examples:\n"
          "  bulkhead index train.yaml\n"
          "  bulkhead index train.yaml --coefficients\n"
          "  bulkhead index train.yaml --jpeg-seek --target unix:/run/bulkhead.sock\n"
          "  bulkhead index bucket.yaml --publish\n",
      .options = {{"SPEC", "The spec, YAML or JSON", SpecPath(arguments->spec), true},
                  {"--jpeg-seek",
                   "Also make the seek entries of its JPEG images, by streaming an epoch",
                   Flag(arguments->jpeg_seek)},
                  {"--coefficients",
                   "Also keep the coefficients of its JPEG images, by streaming an epoch",
                   Flag(arguments->coefficients)},
                  {.name = "--publish",
                   .help =
                       "Put the record indexes of objects in s3:// and gs:// beside them, for all "
                       "services; needs the right to write there",
                   .value = Flag(arguments->publish),
                   .without = {"--jpeg-seek", "--coefficients", "--target"}},
                  {"--json", "Print JSON", Flag(arguments->json)}},
      .run = [arguments] {
        return Done(arguments->publish ? Publish(*arguments) : MakeIndex(*arguments));
      }};
  Append(arguments->service.Options(), command.options);
  return command;
}

}  // namespace bulkhead::tools

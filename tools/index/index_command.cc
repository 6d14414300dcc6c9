#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bulkhead/loader.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/spec/source_chain.h"
#include "tools/common/commands.h"
#include "tools/common/json.h"
#include "tools/common/progress_line.h"
#include "tools/common/service_options.h"
#include "tools/common/status_message.h"
#include "tools/local/local_pipeline.h"
#include "tools/local/longer_spec.h"

namespace bulkhead::tools {
namespace {

constexpr absl::Duration kStatusDeadline = absl::Seconds(30);
constexpr absl::Duration kBatchDeadline = absl::Seconds(300);

struct IndexArguments {
  std::string spec;
  ServiceOptions service;
  bool jpeg_seek = false;
  bool json = false;
};

absl::StatusOr<std::unique_ptr<Loader>> Open(const IndexArguments& arguments, v1::PipelineSpec spec,
                                             ProgressLine& line) {
  // Every sample once.
  spec.mutable_batch()->set_last(v1::LAST_BATCH_PARTIAL);
  LoaderOptions options =
      arguments.service.ForLoader(EndlessSpec(std::move(spec), arguments.spec), line);
  options.on_progress = [&line](const LoaderProgress& progress) {
    if (progress.files_total == 0 || !line.Due()) return;
    const double share =
        static_cast<double>(progress.files_done) / static_cast<double>(progress.files_total);
    line.Show(absl::StrFormat("%s %d of %d files, %d records", ProgressBar(share),
                              progress.files_done, progress.files_total, progress.records));
  };
  return Loader::Open(std::move(options));
}

// Streams an epoch, for what the workers make in passing.
absl::Status StreamEpoch(Loader& loader, ProgressLine& line) {
  const uint64_t batches = loader.info().batches_left_in_epoch;
  for (uint64_t done = 0; done < batches; ++done) {
    if (line.Due()) {
      line.Show(absl::StrFormat("%s seek entries: batch %d of %d",
                                ProgressBar(static_cast<double>(done) / batches), done, batches));
    }
    BULKHEAD_RETURN_IF_ERROR(loader.Next(kBatchDeadline).status());
  }
  return absl::OkStatus();
}

absl::Status MakeSeekEntries(Loader& loader, ProgressLine& line, JsonObject& json) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::GetStatusResponse before,
                            GetStatusMessage(loader.target(), kStatusDeadline));
  if (before.seek_cache().most_bytes() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the service keeps no seek entries: ", before.seek_cache().reason()));
  }
  BULKHEAD_RETURN_IF_ERROR(StreamEpoch(loader, line));
  BULKHEAD_ASSIGN_OR_RETURN(const v1::GetStatusResponse after,
                            GetStatusMessage(loader.target(), kStatusDeadline));
  const uint64_t found = after.jpeg().entries_found() - before.jpeg().entries_found();
  const uint64_t made = after.jpeg().entries_made() - before.jpeg().entries_made();
  const v1::CacheStatus& cache = after.seek_cache();
  json.Add("seek_entries_made", made)
      .Add("seek_entries_found", found)
      .Add("seek_bytes", uint64_t{cache.bytes()})
      .Add("seek_most_bytes", uint64_t{cache.most_bytes()});
  line.Finish(absl::StrFormat(
      "seek entries: %d were made, %d were known before; the segments take %s of %s", made, found,
      FormatBytes(cache.bytes()), FormatBytes(cache.most_bytes())));
  if (cache.reason().empty()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("not all could be kept: ", cache.reason(),
                                                   "; give the service more --cache-bytes"));
}

absl::Status MakeIndex(const IndexArguments& arguments) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::PipelineSpec spec, ReadSpecFile(arguments.spec));
  if (arguments.jpeg_seek && !MayDecodeParts(spec)) {
    return absl::InvalidArgumentError(absl::StrCat(
        arguments.spec, ": no crop follows decode_image, so seek entries would not help"));
  }
  ProgressLine line;
  BULKHEAD_ASSIGN_OR_RETURN(const auto loader, Open(arguments, spec, line));
  line.Finish(absl::StrFormat("indexed: %d samples an epoch", loader->info().samples_per_epoch));
  JsonObject json;
  json.Add("samples_per_epoch", loader->info().samples_per_epoch);
  const absl::Status sought =
      arguments.jpeg_seek ? MakeSeekEntries(*loader, line, json) : absl::OkStatus();
  if (arguments.json && sought.ok()) absl::PrintF("%s\n", json.Text());
  return sought;
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
          "while the first epoch is decoded. With --target they go to that service's cache "
          "folder.\n"
          "\n"
          "Examples:\n"
          "  bulkhead index train.yaml\n"
          "  bulkhead index train.yaml --jpeg-seek --target unix:/run/bulkhead.sock\n",
      .options = {{"SPEC", "The spec, YAML or JSON", SpecPath(arguments->spec), true},
                  {"--jpeg-seek",
                   "Also make the seek entries of its JPEG images, by streaming an epoch",
                   Flag(arguments->jpeg_seek)},
                  {"--json", "Print JSON", Flag(arguments->json)}},
      .run = [arguments] { return Done(MakeIndex(*arguments)); }};
  Append(arguments->service.Options(), command.options);
  return command;
}

}  // namespace bulkhead::tools

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bulkhead/loader.h"
#include "server/base/error.h"
#include "server/spec/yaml/yaml.h"
#include "tools/common/commands.h"
#include "tools/common/json.h"
#include "tools/common/progress_line.h"
#include "tools/common/service_options.h"
#include "tools/common/tensor_stats.h"
#include "tools/cursor/cursor_file.h"
#include "tools/replay/contact_sheet.h"
#include "tools/replay/npy.h"

namespace bulkhead::tools {
namespace {

constexpr absl::Duration kReplayDeadline = absl::Seconds(300);

struct ReplayArguments {
  std::string spec;
  std::string cursor;
  ServiceOptions service;
  std::string out;
  uint64_t batches = 1;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  bool allow_changed_bytes = false;
  bool json = false;
};

absl::Status WriteFile(const std::filesystem::path& path, absl::string_view head,
                       absl::string_view body) {
  std::ofstream file(path, std::ios::binary);
  file.write(head.data(), static_cast<std::streamsize>(head.size()));
  file.write(body.data(), static_cast<std::streamsize>(body.size()));
  file.close();
  if (file) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                   absl::StrCat(path.string(), ": cannot be written; is there room on the disk?"),
                   {{"file", path.string()}});
}

// A name from a spec as part of a file's name.
std::string FileNamePart(absl::string_view name) {
  std::string part(name);
  for (char& c : part) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_') c = '_';
  }
  return part;
}

absl::Status WriteBatch(const Batch& batch, const std::filesystem::path& folder) {
  const std::string prefix =
      absl::StrCat("epoch", batch.epoch(), "-pos", batch.first_position(), "-");
  for (const Tensor& tensor : batch.tensors()) {
    const std::string name = prefix + FileNamePart(tensor.name);
    BULKHEAD_RETURN_IF_ERROR(
        WriteFile(folder / (name + ".npy"), NpyHeader(tensor),
                  absl::string_view(static_cast<const char*>(tensor.data), tensor.bytes)));
    if (!LooksLikeImages(tensor) || batch.sample_count() == 0) continue;
    BULKHEAD_ASSIGN_OR_RETURN(const std::string png, ContactSheetPng(tensor, batch.sample_count()));
    BULKHEAD_RETURN_IF_ERROR(WriteFile(folder / (name + ".png"), png, ""));
  }
  BULKHEAD_RETURN_IF_ERROR(WriteFile(folder / (prefix + "next-cursor.json"), batch.cursor(), "\n"));
  return absl::OkStatus();
}

void PrintBatch(const Batch& batch) {
  std::string positions = "none";
  if (batch.valid_count() > 0) {
    positions = absl::StrCat(batch.first_position(), " to ",
                             batch.first_position() + batch.valid_count() - 1);
  }
  absl::PrintF("epoch %d, positions %s: %d samples", batch.epoch(), positions,
               batch.sample_count());
  if (batch.valid_count() < batch.sample_count()) {
    absl::PrintF(", %d of them padding", batch.sample_count() - batch.valid_count());
  }
  absl::PrintF("%s\n", batch.last_in_epoch() ? ", the last of its epoch" : "");
  for (const Tensor& tensor : batch.tensors()) {
    absl::PrintF("  %s\n", DescribeTensor(tensor, batch.valid_count()).c_str());
  }
}

JsonObject BatchJson(const Batch& batch) {
  return JsonObject()
      .Add("epoch", batch.epoch())
      .Add("first_position", batch.first_position())
      .Add("samples", batch.sample_count())
      .Add("padding", batch.sample_count() - batch.valid_count())
      .Add("last_in_epoch", batch.last_in_epoch())
      .AddEach("tensors", batch.tensors(), [&](const Tensor& tensor) {
        return JsonObject()
            .Add("name", tensor.name)
            .Add("values", DescribeTensor(tensor, batch.valid_count()));
      });
}

// The spec, with batches in their order: what was asked for is the batches behind the cursor's
// place, not whichever are ready first.
absl::StatusOr<SpecSource> OrderedSpec(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  absl::StatusOr<v1::PipelineSpec> spec = ParseSpec(text, path);
  // What is wrong with file or text is the service's to say.
  if (!spec.ok() || !spec->has_deterministic() || spec->deterministic()) return SpecFile(path);
  spec->clear_deterministic();
  SpecSource source = SpecText(SpecToYaml(*spec));
  source.base_dir = std::filesystem::absolute(path).parent_path().string();
  return source;
}

absl::Status Replay(const ReplayArguments& arguments) {
  BULKHEAD_ASSIGN_OR_RETURN(v1::Cursor cursor, ReadCursor(arguments.cursor));
  // Those that were delivered before their turn are shown in their turn.
  cursor.clear_completed();
  cursor.clear_batch_size();
  cursor.clear_world_size();
  if (!arguments.out.empty()) {
    std::error_code error;
    std::filesystem::create_directories(arguments.out, error);
    if (error) {
      return MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                       absl::StrCat(arguments.out, ": cannot be made: ", error.message()));
    }
  }
  ProgressLine line;
  BULKHEAD_ASSIGN_OR_RETURN(SpecSource spec, OrderedSpec(arguments.spec));
  LoaderOptions options = arguments.service.ForLoader(std::move(spec), line);
  options.rank = arguments.rank;
  options.world_size = arguments.world_size;
  options.cursor = CursorJson(cursor);
  options.allow_changed_bytes = arguments.allow_changed_bytes;
  BULKHEAD_ASSIGN_OR_RETURN(const std::unique_ptr<Loader> loader, Loader::Open(std::move(options)));
  std::vector<JsonObject> batches;
  for (uint64_t i = 0; i < arguments.batches; ++i) {
    BULKHEAD_ASSIGN_OR_RETURN(const std::optional<Batch> batch, loader->Next(kReplayDeadline));
    if (!batch.has_value()) {
      absl::FPrintF(stderr, "that was the last epoch of the spec\n");
      break;
    }
    if (arguments.json) {
      batches.push_back(BatchJson(*batch));
    } else {
      PrintBatch(*batch);
    }
    if (!arguments.out.empty()) BULKHEAD_RETURN_IF_ERROR(WriteBatch(*batch, arguments.out));
  }
  if (arguments.json) absl::PrintF("%s\n", JsonObject().Add("batches", batches).Text());
  return absl::OkStatus();
}

}  // namespace

Command ReplayCommand() {
  const auto arguments = std::make_shared<ReplayArguments>();
  Command command{
      .name = "replay",
      .about = "Produce the batches after a cursor again, to inspect them",
      .more =
          "Batches are a function of spec and cursor, so these are the very bytes that the run "
          "saw.\n"
          "Minimum, maximum and mean exclude padding.\n\n"
          "Examples:\n"
          "  bulkhead replay train.yaml --cursor cursor.json --batches 3\n"
          "  bulkhead replay train.yaml --cursor cursor.json --out spike\n"
          "  bulkhead cursor advance epoch.json --batches 117 --batch-size 64 |\n"
          "    bulkhead replay train.yaml --cursor - --out spike\n",
      .options = {{"SPEC", "The spec of the run", SpecPath(arguments->spec), true},
                  {"--cursor", "JSON of the cursor before the first batch; - reads standard input",
                   Text(arguments->cursor, "FILE"), true},
                  {"--batches", "Batches to produce", Number(arguments->batches, 1)},
                  {"--out", "Folder to write to: every tensor as .npy, images also as a .png sheet",
                   Text(arguments->out, "FOLDER")},
                  {"--rank", "Rank whose batches to produce", Number(arguments->rank)},
                  {"--world-size", "Ranks of the run", Number(arguments->world_size, 1)},
                  {"--allow-changed-bytes",
                   "Continue although stages or outputs have changed since",
                   Flag(arguments->allow_changed_bytes)},
                  {"--json", "Print JSON", Flag(arguments->json)}},
      .run = [arguments] { return Done(Replay(*arguments)); }};
  Append(arguments->service.Options(), command.options);
  return command;
}

}  // namespace bulkhead::tools

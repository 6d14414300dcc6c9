#include "tools/replay/replay_command.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bulkhead/loader.h"
#include "server/base/error.h"
#include "server/spec/yaml/yaml.h"
#include "tools/common/progress_line.h"
#include "tools/common/tensor_stats.h"
#include "tools/cursor/cursor_file.h"
#include "tools/replay/contact_sheet.h"
#include "tools/replay/npy.h"

namespace bulkhead::tools {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(300);

struct ReplayArguments {
  std::string spec;
  std::string cursor;
  std::string target;
  std::string out;
  uint64_t batches = 1;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  bool allow_changed_bytes = false;
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
  LoaderOptions options;
  BULKHEAD_ASSIGN_OR_RETURN(options.spec, OrderedSpec(arguments.spec));
  options.target = arguments.target;
  options.rank = arguments.rank;
  options.world_size = arguments.world_size;
  options.cursor = CursorJson(cursor);
  options.allow_changed_bytes = arguments.allow_changed_bytes;
  ProgressLine line;
  options.on_progress = [&](const LoaderProgress& progress) {
    if (line.Due()) line.Show(absl::StrCat("preparing: ", progress.activity));
  };
  options.on_substitution = [](const SubstitutionEvent& event) {
    absl::FPrintF(stderr, "epoch %d, position %d was substituted by %d: %s\n", event.epoch,
                  event.position, event.substitute_position, event.message.c_str());
  };
  options.on_quarantine = [](const QuarantineEvent& event) {
    absl::FPrintF(stderr, "quarantined from now on: %s\n", event.message);
  };
  options.on_hang = [](const HangEvent& event) {
    absl::FPrintF(stderr, "epoch %d, position %d: a worker hung and was ended: %s\n", event.epoch,
                  event.position, event.message);
  };
  BULKHEAD_ASSIGN_OR_RETURN(const std::unique_ptr<Loader> loader, Loader::Open(std::move(options)));
  for (uint64_t i = 0; i < arguments.batches; ++i) {
    BULKHEAD_ASSIGN_OR_RETURN(const std::optional<Batch> batch, loader->Next(kDeadline));
    if (!batch.has_value()) {
      absl::PrintF("that was the last epoch of the spec\n");
      break;
    }
    PrintBatch(*batch);
    if (!arguments.out.empty()) BULKHEAD_RETURN_IF_ERROR(WriteBatch(*batch, arguments.out));
  }
  return absl::OkStatus();
}

}  // namespace

void AddReplayCommand(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<ReplayArguments>();
  CLI::App* command =
      app.add_subcommand("replay", "Produce the batches after a cursor again, to inspect them");
  command->add_option("--spec", arguments->spec, "The spec of the run")->required();
  command
      ->add_option("--cursor", arguments->cursor,
                   "JSON of the cursor before the first batch; - reads standard input")
      ->required();
  command->add_option("--batches", arguments->batches, "Batches to produce")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--out", arguments->out,
                      "Folder to write to: every tensor as .npy, images also as a .png sheet");
  command->add_option("--rank", arguments->rank, "Rank whose batches to produce")
      ->capture_default_str();
  command->add_option("--world-size", arguments->world_size, "Ranks of the run")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--allow-changed-bytes", arguments->allow_changed_bytes,
                    "Continue although stages or outputs have changed since");
  command->add_option("--target", arguments->target,
                      "A running service: host:port or unix:/path; default: one of its own");
  command->footer(
      "Batches are a function of spec and cursor, so these are the very bytes that the run saw.\n"
      "Minimum, maximum and mean exclude padding.\n\n"
      "Examples:\n"
      "  bulkhead replay --spec train.yaml --cursor cursor.json --batches 3\n"
      "  bulkhead replay --spec train.yaml --cursor cursor.json --out spike\n"
      "  bulkhead cursor advance epoch.json --batches 117 --batch-size 64 |\n"
      "    bulkhead replay --spec train.yaml --cursor - --out spike\n");
  command->callback([arguments, &exit_code] {
    const absl::Status status = Replay(*arguments);
    if (status.ok()) return;
    absl::FPrintF(stderr, "bulkhead replay: %s\n", std::string(status.message()).c_str());
    exit_code = 1;
  });
}

}  // namespace bulkhead::tools

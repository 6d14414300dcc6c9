#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_format.h"
#include "server/base/error.h"
#include "tools/common/commands.h"
#include "tools/common/json.h"
#include "tools/common/progress_line.h"
#include "tools/pack/packing.h"
#include "tools/pack/record_supply.h"

namespace bulkhead::tools {
namespace {

constexpr char kPackExamples[] =
    "Of a folder: `image` (the file as it is) and, where the folder has sub-folders, `label`: the\n"
    "number of the sub-folder in sorted order; other files are skipped. Of a list: its images,\n"
    "labels and paths. Of tars: image and label. Of a spec: all features of its source, of the\n"
    "records that its filter, split, skip and take leave. Each file is read back and compared.\n"
    "A run that was ended goes on where it was, with the same command.\n"
    "\n"
    "Examples:\n"
    "  bulkhead pack photos packed                    packed/part-000.tfrecord, ... and "
    "packed.yaml\n"
    "  bulkhead pack train.txt packed                 the images of a list\n"
    "  bulkhead pack 'data/shard-*.tar' packed        tars\n"
    "  bulkhead pack train.yaml packed                the records of a spec\n"
    "  bulkhead pack photos packed --records 5000     records per file\n";

struct PackArguments {
  std::string data;
  PackingOptions packing;
  uint64_t threads = std::max(1u, std::thread::hardware_concurrency());
  bool json = false;
};

absl::Status RunPack(const PackArguments& arguments) {
  std::error_code error;
  BULKHEAD_ASSIGN_OR_RETURN(const std::unique_ptr<RecordSupply> supply,
                            std::filesystem::is_directory(arguments.data, error)
                                ? SupplyFolder(arguments.data)
                                : SupplySource(arguments.data));
  const uint64_t records = supply->record_count();
  PackingOptions options = arguments.packing;
  options.threads = static_cast<int>(arguments.threads);
  ProgressLine line;
  BULKHEAD_ASSIGN_OR_RETURN(
      const Packed packed, PackRecords(*supply, options, [&](uint64_t written) {
        if (!line.Due()) return;
        line.Show(absl::StrFormat("packed %d of %d records", written, records));
      }));
  const std::string spec = (std::filesystem::path(options.out) / "packed.yaml").string();
  if (arguments.json) {
    absl::PrintF("%s\n", JsonObject()
                             .Add("records", records)
                             .Add("files", packed.files)
                             .Add("kept_files", packed.kept_files)
                             .Add("left_out", supply->left_out())
                             .Add("spec", spec)
                             .Text());
    return absl::OkStatus();
  }
  absl::PrintF("%d records in %d files, %d other files left out; try\n  bulkhead stream %s\n",
               records, packed.files, supply->left_out(), spec);
  return absl::OkStatus();
}

}  // namespace

Command PackCommand() {
  const auto arguments = std::make_shared<PackArguments>();
  return {
      .name = "pack",
      .about = "Write images or records as TFRecord files, with a spec",
      .more = kPackExamples,
      .options = {{"DATA", "A folder of images, an image list, tars, TFRecords, or a spec",
                   Text(arguments->data, "DATA"), true},
                  {"OUT", "Folder to write to; made if missing",
                   Text(arguments->packing.out, "OUT"), true},
                  {"--records", "Records per file", Number(arguments->packing.records_a_file, 1)},
                  {"--threads", "Threads", Number(arguments->threads, 1, 1024)},
                  {"--json", "Print JSON", Flag(arguments->json)}},
      .run = [arguments] { return Done(RunPack(*arguments)); }};
}

}  // namespace bulkhead::tools

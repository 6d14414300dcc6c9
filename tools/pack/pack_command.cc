#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "server/base/error.h"
#include "server/base/utf8.h"
#include "server/image/codecs/image_format.h"
#include "server/source/tfrecord/tfrecord_writer.h"
#include "tools/common/commands.h"
#include "tools/common/json.h"
#include "tools/common/progress_line.h"
#include "tools/synth/example.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;

// Of the names of classes in a spec, which has at most 1 MiB.
constexpr size_t kMostNamesBytes = 512 << 10;

constexpr char kPackExamples[] =
    "Features of each record: `image` (the file as it is) and, where the folder has sub-folders,\n"
    "`label`: the number of the sub-folder in sorted order. Other files are skipped.\n"
    "\n"
    "Examples:\n"
    "  bulkhead pack photos packed                    packed/part-000.tfrecord, ... and "
    "packed.yaml\n"
    "  bulkhead pack photos packed --records 5000     records per file\n";

struct PackOptions {
  std::string folder;
  std::string out;
  uint64_t records = 1000;  // of a file
  bool json = false;
};

struct Entry {
  fs::path path;
  int64_t label = 0;
};

struct Listing {
  std::vector<Entry> entries;
  bool labeled = false;
  std::vector<std::string> classes;  // by number
};

// All files below `folder`, ordered by path; with labels when it has sub-folders only.
absl::StatusOr<Listing> List(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> classes;
  Listing listing;
  listing.labeled = true;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory()) classes.push_back(entry.path());
    if (entry.is_regular_file()) listing.labeled = false;
  }
  if (error) return absl::NotFoundError(absl::StrCat(folder.string(), ": ", error.message()));
  std::sort(classes.begin(), classes.end());
  for (const fs::path& path : classes) listing.classes.push_back(path.filename().string());
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    if (!entry.is_regular_file()) continue;
    const auto inside = [&](const fs::path& parent) {
      return std::mismatch(parent.begin(), parent.end(), entry.path().begin()).first ==
             parent.end();
    };
    const auto label = std::find_if(classes.begin(), classes.end(), inside);
    listing.entries.push_back({entry.path(), label - classes.begin()});
  }
  if (error) return absl::UnavailableError(absl::StrCat(folder.string(), ": ", error.message()));
  std::sort(listing.entries.begin(), listing.entries.end(),
            [](const Entry& a, const Entry& b) { return a.path < b.path; });
  return listing;
}

absl::StatusOr<std::string> Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (!file) return absl::UnavailableError(absl::StrCat(path.string(), ": cannot be read"));
  return bytes.str();
}

// ", label: …" with the names of the classes, if there are labels. Names that are no text, or more
// than a spec can hold, are left out.
std::string LabelFeature(const Listing& listing) {
  if (!listing.labeled) return "";
  const bool sayable =
      std::all_of(listing.classes.begin(), listing.classes.end(), [](const std::string& name) {
        return FirstByteThatIsNoText(name) == absl::string_view::npos;
      });
  const std::string names = absl::StrJoin(
      listing.classes, ", ",
      [](std::string* out, const std::string& name) { absl::StrAppend(out, Quoted(name)); });
  if (!sayable || names.size() > kMostNamesBytes) return ", label: int64";
  return absl::StrCat(", label: {int64: {classes: [", names, "]}}");
}

absl::Status WriteSpec(const PackOptions& options, const Listing& listing) {
  const fs::path path = fs::path(options.out) / "packed.yaml";
  std::ofstream file(path);
  file << "source: {tfrecord: {files: \"part-*.tfrecord\"}}\n"
       << "features: {image: {bytes: {}}" << LabelFeature(listing) << "}\n"
       << "stages:\n  - decode_image\n  - random_resized_crop: {size: 224}\n"
       << "  - random_horizontal_flip\nbatch: {size: 64}\norder: global\n";
  file.close();
  if (!file) return absl::UnavailableError(absl::StrCat(path.string(), ": cannot be written"));
  return absl::OkStatus();
}

struct Packed {
  uint64_t records = 0;
  uint64_t left_out = 0;
  uint64_t files = 0;
};

absl::StatusOr<Packed> Pack(const PackOptions& options) {
  BULKHEAD_ASSIGN_OR_RETURN(const Listing listing, List(options.folder));
  std::error_code error;
  fs::create_directories(options.out, error);
  if (!fs::is_empty(options.out, error) || error) {
    return absl::FailedPreconditionError(
        absl::StrCat(options.out, ": is not an empty folder; name another one"));
  }
  Packed packed;
  std::unique_ptr<TfRecordWriter> writer;
  ProgressLine line;
  for (size_t i = 0; i < listing.entries.size(); ++i) {
    const Entry& entry = listing.entries[i];
    BULKHEAD_ASSIGN_OR_RETURN(const std::string bytes, Read(entry.path));
    if (SniffFormat(bytes) == ImageFormat::kUnknown) {
      ++packed.left_out;
      continue;
    }
    if (packed.records % options.records == 0) {
      if (writer != nullptr) BULKHEAD_RETURN_IF_ERROR(writer->Close());
      const std::string name = absl::StrFormat("part-%03d.tfrecord", packed.files++);
      BULKHEAD_ASSIGN_OR_RETURN(writer,
                                TfRecordWriter::Create((fs::path(options.out) / name).string()));
    }
    ExampleBuilder example;
    example.Bytes("image", bytes);
    if (listing.labeled) example.Int64("label", entry.label);
    BULKHEAD_RETURN_IF_ERROR(writer->Write(example.Serialize()));
    ++packed.records;
    if (line.Due())
      line.Show(absl::StrFormat("packed %d of %d files", i + 1, listing.entries.size()));
  }
  if (writer == nullptr) {
    return absl::NotFoundError(absl::StrCat(options.folder, ": holds no images"));
  }
  BULKHEAD_RETURN_IF_ERROR(writer->Close());
  BULKHEAD_RETURN_IF_ERROR(WriteSpec(options, listing));
  return packed;
}

absl::Status RunPack(const PackOptions& options) {
  BULKHEAD_ASSIGN_OR_RETURN(const Packed packed, Pack(options));
  const std::string spec = (fs::path(options.out) / "packed.yaml").string();
  if (options.json) {
    absl::PrintF("%s\n", JsonObject()
                             .Add("records", packed.records)
                             .Add("files", packed.files)
                             .Add("left_out", packed.left_out)
                             .Add("spec", spec)
                             .Text());
    return absl::OkStatus();
  }
  absl::PrintF("%d records in %d files, %d other files left out; try\n  bulkhead stream %s\n",
               packed.records, packed.files, packed.left_out, spec);
  return absl::OkStatus();
}

}  // namespace

Command PackCommand() {
  const auto options = std::make_shared<PackOptions>();
  return {
      .name = "pack",
      .about = "Write a folder of images as TFRecord files, with a spec",
      .more = kPackExamples,
      .options = {{"FOLDER", "Folder with images, at any depth", Folder(options->folder), true},
                  {"OUT", "Folder to write to; made if missing", Text(options->out, "OUT"), true},
                  {"--records", "Records per file", Number(options->records, 1)},
                  {"--json", "Print JSON", Flag(options->json)}},
      .run = [options] { return Done(RunPack(*options)); }};
}

}  // namespace bulkhead::tools

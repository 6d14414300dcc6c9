#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/file_changed.h"
#include "server/base/paths/object_url.h"
#include "server/base/record_name.h"
#include "server/data/published_index.h"
#include "server/os/files/filesystem.h"
#include "tools/common/clock.h"
#include "tools/common/commands.h"
#include "tools/common/count_text.h"
#include "tools/common/json.h"
#include "tools/common/near_path.h"
#include "tools/common/progress_line.h"
#include "tools/inspect/inspected_data.h"
#include "tools/inspect/spec_data.h"
#include "tools/local/confinement.h"
#include "tools/local/find_progress.h"
#include "tools/local/local_objects.h"
#include "tools/local/local_pipeline.h"
#include "tools/local/object_copy.h"
#include "tools/pack/altered_supply.h"
#include "tools/pack/annotated_supply.h"
#include "tools/pack/box_table.h"
#include "tools/pack/class_list.h"
#include "tools/pack/coco_json.h"
#include "tools/pack/confined_images.h"
#include "tools/pack/packing.h"
#include "tools/pack/record_supply.h"

namespace bulkhead::tools {
namespace {

constexpr char kPackExamples[] =
    "Of a folder: `image` (the file as it is) and, where all images lie in sub-folders, `label`: "
    "the\n"
    "number of the sub-folder in sorted order; other files are skipped. Of a list: its images,\n"
    "labels and paths. Of tars: image and label. Of a spec: all features of its source, of the\n"
    "records that its filter, split, skip and take leave. Of COCO JSON and of a table of boxes\n"
    "(first line: path,label,xmin,ymin,xmax,ymax or path,label,x,y,w,h): `image`, `boxes` as "
    "xmin,\n"
    "ymin, xmax, ymax in its pixels, `labels`, `path`, and COCO's `image_id`. Each file is read\n"
    "back and compared. A run that was ended goes on where it was, with the same command, and a\n"
    "finished one is checked. DATA, --images and --classes may be URLs: s3://, gs://, http(s)://;\n"
    "to pack into a bucket, pack to a folder and copy its files there with the store's own tool.\n"
    "\n"
    "Examples:\n"
    "  bulkhead pack photos packed                    packed/part-000.tfrecord, ... and "
    "packed.yaml\n"
    "  bulkhead pack train.txt packed                 the images of a list\n"
    "  bulkhead pack 'data/shard-*.tar' packed        tars\n"
    "  bulkhead pack train.yaml packed                the records of a spec\n"
    "  bulkhead pack s3://bucket/photos packed        the images below a folder of a bucket\n"
    "  bulkhead pack photos packed --records 5000     records per file\n"
    "  bulkhead pack photos packed --file-size 256MiB\n"
    "  bulkhead pack photos packed --longer-side 640 --quality 90\n"
    "  bulkhead pack instances_train2017.json packed --images train2017\n"
    "  bulkhead pack boxes.csv packed --images photos --relative\n"
    "  bulkhead pack boxes.csv packed --negatives apart --key image=img_raw,boxes=bbox\n";

// What is looked at to tell what a JSON file holds.
constexpr size_t kJsonHeadBytes = 4096;
constexpr char kRunAgain[] = "run the same command again";
// Without a new record for so long, the progress says so.
constexpr absl::Duration kLongWait = absl::Seconds(5);

struct PackArguments {
  std::string data;
  PackingOptions packing;
  std::string file_size;
  uint64_t threads = std::max(1u, std::thread::hardware_concurrency());
  bool json = false;
  std::vector<std::string> keys;  // "image=img_raw"
  uint32_t longer_side = 0;
  uint32_t shorter_side = 0;
  int quality = 0;
  AnnotationOptions annotations;
  std::string negatives = "keep";
  std::string crowds = "drop";
  std::string bad_boxes = "fail";
  std::string classes;  // file
  bool relative = false;
  uint64_t max_pixels = kDefaultMaxPixels;
  std::string sandbox;
  std::string serve_images;  // of a process of ConfinedImages
  Given given;
};

absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(what); }

// `options`, of which one was given, mean nothing for this data.
absl::Status RefuseFor(const PackArguments& arguments, const std::vector<std::string>& options,
                       absl::string_view meaning) {
  return Refuse(arguments.given, options, absl::StrCat("means something only for ", meaning));
}

absl::StatusOr<Alteration> AlterationOf(const PackArguments& arguments) {
  Alteration alteration;
  for (const std::string& texts : arguments.keys) {
    for (const std::string& text : std::vector<std::string>(absl::StrSplit(texts, ','))) {
      const size_t at = text.find('=');
      if (at == 0 || at == std::string::npos) {
        return Wrong(absl::StrCat("--key ", texts, ": `", text,
                                  "` is no FEATURE=KEY; write image=img_raw, or several as "
                                  "image=img_raw,boxes=bbox"));
      }
      if (!alteration.keys.emplace(text.substr(0, at), text.substr(at + 1)).second) {
        return Wrong(absl::StrCat("--key ", text, ": this feature has a key already"));
      }
    }
  }
  Recoding& recoding = alteration.recoding;
  if (arguments.longer_side > 0) recoding.side = Recoding::Side::kLonger;
  if (arguments.shorter_side > 0) recoding.side = Recoding::Side::kShorter;
  recoding.pixels = std::max(arguments.longer_side, arguments.shorter_side);
  recoding.quality = arguments.quality;
  return alteration;
}

// One name of the data, however their path is written.
std::string OneName(const std::string& data) {
  if (IsObjectUrl(data)) {
    return absl::StrCat(absl::StripSuffix(WithoutQuery(data), "/"), QueryMark(data));
  }
  std::error_code error;
  const std::filesystem::path plain = std::filesystem::weakly_canonical(data, error);
  return (plain.has_filename() ? plain : plain.parent_path()).string();
}

// What ends with .json, but is neither a spec nor COCO's.
absl::Status CheckJson(const std::string& path) {
  if (!absl::EndsWith(path, ".json")) return absl::OkStatus();
  BULKHEAD_ASSIGN_OR_RETURN(const std::string head, ReadPrefix(path, kJsonHeadBytes));
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(head);
  const bool is_list = absl::StartsWith(text, "[");
  if (!text.empty() && !is_list) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kListInvalid,
                   absl::StrCat(Printable(path), ": ",
                                is_list ? "is a list, as COCO's results are; boxes to train with "
                                          "are an object with `images`, `annotations` and "
                                          "`categories`"
                                        : "is empty; was it written to the end?"),
                   {{"file", path}});
}

// Where DATA and what belongs to it lie, and what tells of their being found.
struct Place {
  InspectedData found;             // of a URL
  std::optional<ObjectCopy> copy;  // of the object that DATA names
  FindProgressFn progress;

  // The file in which DATA can be looked at.
  const std::string& FileOf(const PackArguments& arguments) const {
    return copy.has_value() ? copy->path() : arguments.data;
  }
};

absl::StatusOr<ClassList> ReadClassList(const std::string& path, const Place& place) {
  if (path.empty()) return ClassList();
  if (!IsObjectUrl(path)) return ClassList::Read(path);
  BULKHEAD_ASSIGN_OR_RETURN(const auto found,
                            place.found.objects->Find(path, [] { return false; }));
  if (found.size() != 1) return Wrong("--classes: names several objects, not one");
  // Names have no checksum: they are read from the store each time, past the block cache.
  BULKHEAD_ASSIGN_OR_RETURN(const ObjectCopy copy,
                            ObjectCopy::Make(*place.found.objects, found[0],
                                             {.most_text_bytes = ClassList::kMostBytes,
                                              .trust = internal::v1::FetchParts::TRUST_NOTHING}));
  auto classes = ClassList::Read(copy.path());
  return classes.ok() ? std::move(classes) : copy.AsOfObject(classes.status());
}

absl::StatusOr<std::unique_ptr<RecordSupply>> SupplyBoxes(const PackArguments& arguments,
                                                          const Place& place,
                                                          const MakeImageWorkFn& image_work) {
  BULKHEAD_ASSIGN_OR_RETURN(const ClassList classes, ReadClassList(arguments.classes, place));
  AnnotationOptions options = arguments.annotations;
  options.negatives = arguments.negatives == "apart"  ? AnnotationOptions::Negatives::kApart
                      : arguments.negatives == "drop" ? AnnotationOptions::Negatives::kDrop
                                                      : AnnotationOptions::Negatives::kKeep;
  options.keep_crowds = arguments.crowds == "keep";
  options.cut_boxes = arguments.bad_boxes == "cut";
  Annotations annotations;
  const std::string& file = place.FileOf(arguments);
  if (IsCocoJson(file)) {
    BULKHEAD_RETURN_IF_ERROR(RefuseFor(arguments, {"--relative"}, "tables of boxes"));
    BULKHEAD_ASSIGN_OR_RETURN(annotations, ReadCocoJson(file, classes));
  } else {
    BULKHEAD_RETURN_IF_ERROR(RefuseFor(arguments, {"--crowds"}, "COCO JSON"));
    BULKHEAD_ASSIGN_OR_RETURN(annotations, ReadBoxTable(file, arguments.relative, classes));
  }
  if (place.copy.has_value()) annotations.file = std::string(WithoutQuery(arguments.data));
  return SupplyAnnotated(std::move(annotations), options, place.found.objects, image_work,
                         place.progress);
}

absl::StatusOr<std::unique_ptr<RecordSupply>> SupplyFile(const PackArguments& arguments,
                                                         const Place& place,
                                                         const MakeImageWorkFn& image_work) {
  const std::string& file = place.FileOf(arguments);
  if (IsCocoJson(file) || IsBoxTable(file)) return SupplyBoxes(arguments, place, image_work);
  BULKHEAD_RETURN_IF_ERROR(CheckJson(file));
  const std::vector<std::string> of_boxes = {"--images",  "--negatives", "--crowds", "--bad-boxes",
                                             "--classes", "--relative",  "--upright"};
  const bool means_boxes =
      std::any_of(of_boxes.begin(), of_boxes.end(),
                  [&](const std::string& option) { return arguments.given.count(option) > 0; });
  BULKHEAD_RETURN_IF_ERROR(RefuseUntitledBoxes(file, means_boxes));
  BULKHEAD_RETURN_IF_ERROR(RefuseFor(arguments, of_boxes, "COCO JSON and tables of boxes"));
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) return SupplyFolder(file);
  return SupplySource(arguments.data, place.found, place.progress);
}

// DATA is a URL: of objects, or else of a folder.
absl::StatusOr<std::unique_ptr<RecordSupply>> SupplyObjects(const PackArguments& arguments,
                                                            Place& place,
                                                            const MakeImageWorkFn& image_work) {
  BULKHEAD_ASSIGN_OR_RETURN(place.found, FindData({arguments.data}, place.progress));
  if (place.found.folder != nullptr) {
    return SupplyFolder(std::string(absl::StripSuffix(arguments.data, "/")),
                        std::move(place.found.folder));
  }
  const internal::v1::ResolvedFile& looked_at = place.found.first().found();
  BULKHEAD_ASSIGN_OR_RETURN(
      place.copy, ObjectCopy::Make(*place.found.objects, looked_at, {.progress = place.progress}));
  auto supply = SupplyFile(arguments, place, image_work);
  if (absl::IsInvalidArgument(supply.status()) || absl::IsNotFound(supply.status()) ||
      absl::IsDataLoss(supply.status()) || absl::IsFailedPrecondition(supply.status())) {
    // Its bytes may have arrived wrong, and then lie in the block cache.
    BULKHEAD_ASSIGN_OR_RETURN(ObjectCopy again,
                              ObjectCopy::Make(*place.found.objects, looked_at,
                                               {.trust = internal::v1::FetchParts::TRUST_NOTHING,
                                                .progress = place.progress}));
    if (!again.IsAs(*place.copy)) {
      place.copy = std::move(again);
      supply = SupplyFile(arguments, place, image_work);
    }
  }
  return supply.ok() ? std::move(supply) : place.copy->AsOfObject(supply.status());
}

// What is packed and where its files lie may be URLs; where it is packed to may not.
absl::Status CheckUrls(const PackArguments& arguments) {
  for (const std::string& named :
       {arguments.data, arguments.annotations.images, arguments.classes}) {
    if (LooksLikeUrl(named)) BULKHEAD_RETURN_IF_ERROR(ParseObjectUrl(named).status());
  }
  const std::string out = ShownUrl(arguments.packing.out);
  if (!IsObjectUrl(out) && !LooksLikeUrl(out)) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, reason::kFileUnreadable,
                   absl::StrCat(out,
                                ": is no folder of this host; pack to a folder, and copy its files "
                                "to the bucket afterwards with the store's own tool"),
                   {{"file", out}});
}

absl::StatusOr<std::unique_ptr<RecordSupply>> Supply(const PackArguments& arguments,
                                                     const FindProgressFn& progress) {
  BULKHEAD_RETURN_IF_ERROR(Confinement::Of({.sandbox = arguments.sandbox}, "").status());
  const auto image_work = [&](uint64_t max_pixels) -> MakeImageWorkFn {
    return [sandbox = arguments.sandbox, max_pixels] {
      return NewConfinedImageWork(sandbox, max_pixels);
    };
  };
  BULKHEAD_ASSIGN_OR_RETURN(const Alteration alteration, AlterationOf(arguments));
  BULKHEAD_RETURN_IF_ERROR(CheckUrls(arguments));
  const bool is_url = IsObjectUrl(arguments.data);
  const bool is_spec =
      absl::EndsWith(arguments.data, ".yaml") || absl::EndsWith(arguments.data, ".yml");
  if (is_spec && is_url) return ReadSpecFile(arguments.data).status();
  std::error_code error;
  const bool is_glob = arguments.data.find_first_of("*?[") != std::string::npos;
  if (!is_url && !is_glob && !std::filesystem::exists(arguments.data, error)) {
    return absl::NotFoundError(absl::StrCat(arguments.data, ": there is no such file or folder; ",
                                            NearPath(arguments.data)));
  }
  Place place;
  place.progress = progress;
  if (!is_url && (IsObjectUrl(arguments.annotations.images) || IsObjectUrl(arguments.classes))) {
    BULKHEAD_ASSIGN_OR_RETURN(place.found.objects, MakeLocalObjects());
  }
  const MakeImageWorkFn of_boxes = image_work(arguments.max_pixels);
  BULKHEAD_ASSIGN_OR_RETURN(
      std::unique_ptr<RecordSupply> supply,
      is_url ? SupplyObjects(arguments, place, of_boxes) : SupplyFile(arguments, place, of_boxes));
  if (!alteration.any()) return supply;
  uint64_t max_pixels = arguments.max_pixels;
  const v1::PipelineSpec spec = supply->Spec();
  for (const v1::Stage& stage : spec.stages()) {
    max_pixels = std::max(max_pixels, stage.decode_image().max_pixels());
  }
  return AlterSupply(std::move(supply), alteration, image_work(max_pixels));
}

absl::Status RunPack(const PackArguments& arguments) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::unique_ptr<RecordSupply> supply,
                            Supply(arguments, ShowFinding()));
  const uint64_t records = supply->record_count();
  PackingOptions options = arguments.packing;
  options.data = OneName(arguments.data);
  options.threads = static_cast<int>(arguments.threads);
  if (!arguments.file_size.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(options.file_bytes, ParseBytes(arguments.file_size));
    if (options.file_bytes == 0) return Wrong("--file-size 0: a file holds at least a record");
  }
  ProgressLine line;
  uint64_t last = 0;
  absl::Time last_at = SteadyNow();
  BULKHEAD_ASSIGN_OR_RETURN(
      const Packed packed, PackRecords(*supply, options, [&](uint64_t written) {
        const absl::Time now = SteadyNow();
        if (std::exchange(last, written) != written) last_at = now;
        if (!line.Due()) return;
        const absl::Duration wait = now - last_at;
        line.Show(absl::StrFormat("packed %d of %d records", written, records) +
                  (wait < kLongWait ? ""
                                    : absl::StrFormat(", none for %d s: waits for the data",
                                                      absl::ToInt64Seconds(wait))));
      }));
  const std::string spec = (std::filesystem::path(options.out) / "packed.yaml").string();
  if (arguments.json) {
    JsonObject sets;
    for (const RecordSet& set : supply->sets()) sets.Add(set.name, set.record_count);
    absl::PrintF("%s\n", JsonObject()
                             .Add("records", records)
                             .Add("sets", sets)
                             .Add("files", packed.files)
                             .Add("kept_files", packed.kept_files)
                             .Add("was_whole", packed.was_whole)
                             .Add("stale_files", packed.stale_files)
                             .Add("left_out", supply->left_out())
                             .Add("notes", supply->Notes())
                             .Add("spec", spec)
                             .Text());
    return absl::OkStatus();
  }
  if (packed.was_whole) {
    absl::PrintF(
        "already packed: %s in %s, which all read as they were written; try\n  bulkhead "
        "stream %s\n",
        CountText(records, "record"), CountText(packed.files, "file"), spec);
    return absl::OkStatus();
  }
  const uint64_t left_out = supply->left_out();
  absl::PrintF(
      "%s in %s%s; try\n  bulkhead stream %s\n", CountText(records, "record"),
      CountText(packed.files, "file"),
      left_out > 0 ? absl::StrCat(", ", CountText(left_out, "other file"), " left out") : "", spec);
  if (packed.stale_files > 0) {
    absl::PrintF("%s of the earlier run written anew, whose data have changed since\n",
                 CountText(packed.stale_files, "file"));
  }
  for (const std::string& note : supply->Notes()) absl::PrintF("%s\n", note);
  return absl::OkStatus();
}

// An error of data, as one who packs can do something about it.
absl::Status OfThisCommand(const absl::Status& status) {
  const std::string text = absl::StrReplaceAll(
      status.message(), {{kOpenAsItIsNow, kRunAgain},
                         {"open the stream again", kRunAgain},
                         {"give the cache folder more disk, or less of it to --block-cache-bytes",
                          "set XDG_CACHE_HOME to a folder on a disk with more room"}});
  const auto info = GetErrorInfo(status);
  if (!info.has_value() || text == status.message()) return status;
  return MakeError(status.code(), info->reason, text, info->metadata);
}

std::vector<Option> OptionsOf(PackArguments& arguments) {
  return {
      {"DATA",
       "A folder of images, an image list, tars, TFRecords, a spec, COCO JSON, or a table of "
       "boxes; "
       "a path or a URL",
       Text(arguments.data, "DATA"), true},
      {"OUT", "Folder to write to; made if missing", Text(arguments.packing.out, "OUT"), true},
      {"--records", "Records per file", Number(arguments.packing.records_a_file, 1)},
      {.name = "--file-size",
       .help = "Size that a file has at most, about, such as 256MiB",
       .value = Size(arguments.file_size),
       .without = {"--records"}},
      {"--key", "What records call a feature, such as image=img_raw; may be given again",
       Texts(arguments.keys, "FEATURE=KEY")},
      {.name = "--longer-side",
       .help = "Make images smaller whose longer side has more pixels; boxes follow",
       .value = Number(arguments.longer_side, 1, 65535),
       .without = {"--shorter-side"}},
      {"--shorter-side", "The same for the shorter side", Number(arguments.shorter_side, 1, 65535)},
      {"--quality",
       "Encode all images again, as JPEG of this quality; left out: only smaller ones, with 95",
       Number(arguments.quality, 1, 100)},
      {"--max-pixels", "Most pixels of an image; a spec may allow more",
       Number(arguments.max_pixels, 1)},
      {"--images", "Folder or URL that the paths of boxes start from; left out: that of DATA",
       Text(arguments.annotations.images, "FOLDER")},
      {"--negatives", "Images without boxes: with the others, left out, or in files neg-*",
       Choice(arguments.negatives, {"keep", "drop", "apart"})},
      {"--bad-boxes", "Boxes beyond their image: an error, or cut at its edge",
       Choice(arguments.bad_boxes, {"fail", "cut"})},
      {"--crowds", "COCO's boxes around groups (iscrowd)",
       Choice(arguments.crowds, {"drop", "keep"})},
      {"--classes", "Names of the classes, a line each, in the order of their numbers",
       Text(arguments.classes, "FILE")},
      {"--relative", "The table's boxes are shares of the images' sides", Flag(arguments.relative)},
      {"--upright", "Boxes are those of the images as their EXIF turns them",
       Flag(arguments.annotations.upright)},
      {"--threads", "Threads", Number(arguments.threads, 1, 1024)},
      {"--sandbox", "Parts of the sandbox in which images are decoded; left out: all",
       Text(arguments.sandbox, "PARTS")},
      {"--json", "Print JSON", Flag(arguments.json)},
      {.name = kServeImages,
       .help = "",
       .value = Text(arguments.serve_images, "PARTS"),
       .hidden = true}};
}

}  // namespace

Command PackCommand() {
  const auto arguments = std::make_shared<PackArguments>();
  return {.name = "pack",
          .about = "Write images or records as TFRecord files, with a spec",
          .more = kPackExamples,
          .options = OptionsOf(*arguments),
          .run = [arguments]() -> absl::StatusOr<int> {
            if (!arguments->serve_images.empty()) {
              return ServeImages(arguments->serve_images, arguments->max_pixels);
            }
            return Done(OfThisCommand(RunPack(*arguments)));
          },
          .check =
              [arguments](const Given& given) {
                arguments->given = given;
                return absl::OkStatus();
              }};
}

}  // namespace bulkhead::tools

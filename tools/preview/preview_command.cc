#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bulkhead/loader.h"
#include "server/base/error.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/signature.h"
#include "server/spec/yaml/yaml.h"
#include "tools/common/commands.h"
#include "tools/common/json.h"
#include "tools/common/progress_line.h"
#include "tools/common/service_options.h"
#include "tools/common/tensor_image.h"
#include "tools/cursor/cursor_file.h"
#include "tools/local/local_data.h"
#include "tools/local/local_pipeline.h"
#include "tools/local/own_run.h"
#include "tools/preview/output_stats.h"
#include "tools/preview/preview_boxes.h"
#include "tools/preview/preview_caption.h"
#include "tools/preview/preview_sheet.h"
#include "tools/preview/real_values.h"
#include "tools/preview/stage_specs.h"

namespace bulkhead::tools {
namespace {

constexpr char kPreviewExamples[] =
    R"(A service produces the samples with the stages, seeds and order of a training run. Below
each image are its position and its other outputs. Declared boxes are drawn with their
labels: of the outputs with one whole number for each box, the one with label, class or
category in its name, else the first. Prints the smallest, largest and mean value of every
output, and which values of floats are drawn black and white: 0 to 1, -1 to 1 or 0 to 255
where all lie within, else the least to the largest. An image of 2, 4, 6, 9 to 24 channels,
or a stack of images, is drawn as several, side by side. With --stages, images of different
sizes are padded to one size.

Examples:
  bulkhead preview train.yaml --out sheet.png
  bulkhead preview train.yaml --out sheet.png --epoch 3 --start 5000 --samples 36
  bulkhead preview train.yaml --out stages.png --stages --samples 6
)";

constexpr absl::Duration kPreviewDeadline = absl::Seconds(300);

struct PreviewArguments {
  std::string spec;
  std::string out;
  std::string image;
  std::string labels;  // of boxes; empty: chosen
  std::string classes_file;
  ServiceOptions service;
  uint64_t epoch = 0;
  uint64_t start = 0;
  uint64_t samples = 16;
  int side = 256;
  bool stages = false;
  bool json = false;
  std::string values_of;  // this process looks at the values of this image
};

// Opens `spec` at a place of its order.
absl::StatusOr<std::unique_ptr<Loader>> OpenAt(const v1::PipelineSpec& spec,
                                               const PreviewArguments& arguments,
                                               ProgressLine& line) {
  const auto options = [&](const std::string& cursor) {
    SpecSource text = SpecText(SpecToYaml(spec));
    text.base_dir = SpecFolder(arguments.spec);
    LoaderOptions made = arguments.service.ForLoader(std::move(text), line);
    made.cursor = cursor;
    return made;
  };
  BULKHEAD_ASSIGN_OR_RETURN(std::unique_ptr<Loader> loader, Loader::Open(options("")));
  if (arguments.epoch == 0 && arguments.start == 0) return loader;
  if (arguments.start >= loader->info().samples_per_epoch) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                     absl::StrCat("--start ", arguments.start, ": an epoch has positions 0 to ",
                                  loader->info().samples_per_epoch - 1));
  }
  BULKHEAD_ASSIGN_OR_RETURN(v1::Cursor cursor, ParseCursor(loader->info().cursor, "cursor"));
  loader.reset();
  cursor.set_epoch(arguments.epoch);
  cursor.set_consumed(arguments.start);
  return Loader::Open(options(CursorJson(cursor)));
}

// The output to show: the one that is named, or the first that looks like images, or may be some.
absl::StatusOr<const Tensor*> ImagesOf(const Batch& batch, const std::string& name) {
  for (const auto fits : {LooksLikeImages, MayBeImages}) {
    for (const Tensor& tensor : batch.tensors()) {
      if (fits(tensor) && (name.empty() || tensor.name == name)) return &tensor;
    }
  }
  std::string names;
  for (const Tensor& tensor : batch.tensors()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", tensor.name);
  }
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                   name.empty() ? absl::StrCat("no output looks like images; outputs: ", names)
                                : absl::StrCat("no output called '", name,
                                               "' looks like images; outputs: ", names));
}

// What came: samples to draw, and what is said of the outputs.
struct Taken {
  std::vector<PreviewCell> cells;
  std::string name;  // of the output that is drawn
  Tones tones;       // in which it is drawn
  OutputStats stats;
};

// The names of classes, a line each, if there is a file of them.
absl::StatusOr<std::vector<std::string>> ReadClasses(const std::string& path) {
  std::vector<std::string> classes;
  if (path.empty()) return classes;
  std::ifstream file(path);
  if (!file.is_open()) {
    return MakeError(absl::StatusCode::kNotFound, reason::kFileNotFound,
                     absl::StrCat("--classes ", path, ": cannot be opened"), {{"file", path}});
  }
  for (std::string name; std::getline(file, name);) {
    classes.emplace_back(absl::StripAsciiWhitespace(name));
  }
  if (!classes.empty()) return classes;
  return MakeError(absl::StatusCode::kNotFound, reason::kFileNotFound,
                   absl::StrCat("--classes ", path,
                                ": names no class; write the names into a text file, a line each, "
                                "the name of class 0 first"),
                   {{"file", path}});
}

// The images of the first samples from the asked place on; `name`: of which output, or empty.
absl::StatusOr<Taken> Take(const v1::PipelineSpec& spec, const PreviewArguments& arguments,
                           ProgressLine& line, const std::string& name) {
  BULKHEAD_ASSIGN_OR_RETURN(const PipelineSignature signature, InferSignature(spec));
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<std::string> of_all,
                            ReadClasses(arguments.classes_file));
  BULKHEAD_ASSIGN_OR_RETURN(const std::unique_ptr<Loader> loader, OpenAt(spec, arguments, line));
  ClassNames classes;  // by output
  for (const TensorInfo& tensor : loader->info().tensors) {
    classes[tensor.name] = of_all.empty() ? tensor.class_names : of_all;
  }
  Taken taken;
  taken.name = name;
  std::vector<PreviewCell>& cells = taken.cells;
  while (cells.size() < arguments.samples) {
    BULKHEAD_ASSIGN_OR_RETURN(const std::optional<Batch> batch, loader->Next(kPreviewDeadline));
    if (!batch.has_value() || batch->epoch() != arguments.epoch) break;
    BULKHEAD_ASSIGN_OR_RETURN(const Tensor* const tensor, ImagesOf(*batch, taken.name));
    taken.name = std::string(tensor->name);
    const uint64_t shown =
        std::min<uint64_t>(batch->sample_count(), arguments.samples - cells.size());
    if (cells.empty()) taken.tones = TonesOf(*tensor, shown);
    taken.stats.Add(*batch, shown);
    const TensorImages images(*tensor, taken.tones);
    const std::vector<LabelledBoxes> boxes =
        BoxFeatures(signature, taken.name, arguments.labels, true);
    for (uint64_t i = 0; i < shown; ++i) {
      PreviewCell& cell = cells.emplace_back();
      images.ToRgb(i, cell.image);
      cell.boxes = BoxesOf(*batch, i, boxes, images.size(), classes);
      cell.caption = CaptionOf(*batch, *tensor, boxes, i, classes);
    }
    if (batch->last_in_epoch()) break;
  }
  if (!cells.empty()) return taken;
  return MakeError(absl::StatusCode::kOutOfRange, reason::kInvalidArgument,
                   "no batch came from that place to the end of the epoch");
}

// How the numbers of an output were drawn, behind `prefix`; empty: as they are.
std::string SaidOfTones(const std::string& prefix, const Tones& tones) {
  const std::string said = DescribeTones(tones);
  return said.empty() ? "" : absl::StrCat(prefix, said);
}

// Without `deterministic`: whichever batch is ready first is not what was asked for.
absl::StatusOr<v1::PipelineSpec> ReadSpec(const PreviewArguments& arguments) {
  BULKHEAD_ASSIGN_OR_RETURN(v1::PipelineSpec spec, ReadSpecFile(arguments.spec));
  BULKHEAD_RETURN_IF_ERROR(Normalize(spec));
  spec.clear_deterministic();
  return spec;
}

// The values behind the stages as they are, by the stages' numbers, where what is drawn was brought
// to one size; for a process of RunAgain.
absl::StatusOr<std::string> ValuesHere(const PreviewArguments& arguments) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::PipelineSpec spec, ReadSpec(arguments));
  const std::vector<StageSpec> stages =
      CutBehindStages(spec, arguments.values_of, arguments.side, arguments.labels);
  const auto last = std::find_if(stages.rbegin(), stages.rend(), std::mem_fn(&StageSpec::boxed));
  if (last == stages.rend()) return "";
  BULKHEAD_ASSIGN_OR_RETURN(const auto values,
                            ValuesBehindStages(last->spec, last->image,
                                               {.base_dir = SpecFolder(arguments.spec),
                                                .epoch = arguments.epoch,
                                                .first_position = arguments.start,
                                                .count = arguments.samples,
                                                .code = arguments.service.code}));
  return TextOf(values);
}

// The same from such a process. Nothing where that cannot be had: the data are a running service's
// affair, or a sample cannot be made.
std::map<int, ImageValues> RealValues(const std::vector<StageSpec>& stages,
                                      const PreviewArguments& arguments, const std::string& image) {
  const bool any_boxed = std::ranges::any_of(stages, &StageSpec::boxed);
  if (!any_boxed || !arguments.service.target.empty()) return {};
  const auto spec = ReadSpec(arguments);
  if (!spec.ok()) return {};
  const auto data =
      LocalData::Create(*spec, SpecFolder(arguments.spec), [](const v1::Progress&) {});
  if (!data.ok()) return {};
  std::vector<std::string> args = OwnArguments();
  args.insert(args.end(), {"--values-of", image});
  const absl::StatusOr<std::string> text = RunAgain(std::move(args), **data);
  if (!text.ok()) return {};
  auto values = ImageValuesFromText(*text);
  return values.ok() ? *std::move(values) : std::map<int, ImageValues>();
}

// What is said of the stages.
struct StageWords {
  std::string text;
  std::vector<JsonObject> json;
};

// `real`: the values behind the stages whose images were brought to one size.
void AddWords(const StageSpec& stage, const Taken& taken, const std::map<int, ImageValues>& real,
              const std::string& image, StageWords& words) {
  const auto found = stage.boxed ? real.find(stage.stage) : real.end();
  const OutputStats stats = found == real.end()
                                ? taken.stats
                                : OutputStats::Of(image, found->second.type, found->second.stats);
  const bool of_thumbnails = stage.boxed && found == real.end();
  absl::StrAppend(&words.text, "  behind ", stage.title, ": ", stats.Describe(image),
                  of_thumbnails ? ", of the images as drawn" : "",
                  SaidOfTones("; drawn so that ", taken.tones), "\n");
  words.json.push_back(JsonObject()
                           .Add("stage", stage.title)
                           .Add("outputs", stats.Json())
                           .Add("as_drawn", of_thumbnails)
                           .Add("drawn", DescribeTones(taken.tones)));
}

// One row a sample, one column a stage. `said` gains what is said of each.
absl::StatusOr<PreviewSheet> StageSheet(const v1::PipelineSpec& spec,
                                        const PreviewArguments& arguments, ProgressLine& line,
                                        const std::string& image, StageWords& said) {
  PreviewSheet sheet;
  std::vector<std::vector<PreviewCell>> columns;
  std::vector<StageSpec> stages = CutBehindStages(spec, image, arguments.side, arguments.labels);
  const std::map<int, ImageValues> real = RealValues(stages, arguments, image);
  for (StageSpec& stage : stages) {
    stage.spec.mutable_batch()->set_size(arguments.samples);
    BULKHEAD_ASSIGN_OR_RETURN(Taken taken, Take(stage.spec, arguments, line, stage.image));
    AddWords(stage, taken, real, stage.image, said);
    columns.push_back(std::move(taken.cells));
    sheet.column_titles.push_back(stage.title);
  }
  if (columns.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                     absl::StrCat("no stage makes an image called '", image, "'"));
  }
  sheet.columns = columns.size();
  size_t rows = columns[0].size();
  for (const auto& column : columns) rows = std::min(rows, column.size());
  for (size_t row = 0; row < rows; ++row) {
    for (auto& column : columns) sheet.cells.push_back(std::move(column[row]));
  }
  return sheet;
}

// What stands at which boxes of the whole spec's images: ", `labels` at `boxes`".
std::string SaidOfLabels(const PipelineSignature& signature, const PreviewArguments& arguments,
                         const std::string& image) {
  std::string said;
  for (const LabelledBoxes& found : BoxFeatures(signature, image, arguments.labels, true)) {
    if (found.labels.empty()) continue;
    absl::StrAppend(&said, ", `", found.labels, "` at `", found.boxes.name, "`");
  }
  return said;
}

absl::Status Preview(const PreviewArguments& arguments) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::PipelineSpec spec, ReadSpec(arguments));
  BULKHEAD_ASSIGN_OR_RETURN(const PipelineSignature signature, InferSignature(spec));
  BULKHEAD_RETURN_IF_ERROR(
      CheckLabels(signature, arguments.image, arguments.labels, !arguments.stages));
  ProgressLine line;
  BULKHEAD_ASSIGN_OR_RETURN(Taken taken, Take(spec, arguments, line, arguments.image));
  const std::string& image = taken.name;
  PreviewSheet sheet;
  StageWords said_of_stages;
  if (arguments.stages) {
    BULKHEAD_ASSIGN_OR_RETURN(sheet, StageSheet(spec, arguments, line, image, said_of_stages));
  } else {
    while (sheet.columns * sheet.columns < taken.cells.size()) ++sheet.columns;
    sheet.cells = std::move(taken.cells);
  }
  sheet.side = arguments.side;
  sheet.title = absl::StrCat(arguments.spec.substr(arguments.spec.rfind('/') + 1), ": ", image,
                             ", epoch ", arguments.epoch, ", from position ", arguments.start,
                             SaidOfTones(", ", taken.tones));
  BULKHEAD_ASSIGN_OR_RETURN(const std::string png, PreviewPng(sheet));
  std::ofstream file(arguments.out, std::ios::binary);
  file.write(png.data(), static_cast<std::streamsize>(png.size()));
  file.close();
  if (!file) {
    return MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                     absl::StrCat(arguments.out, ": cannot be written; is there room on the disk?"),
                     {{"file", arguments.out}});
  }
  const uint64_t samples = sheet.cells.size() / (arguments.stages ? sheet.columns : 1);
  if (arguments.json) {
    JsonObject json;
    json.Add("out", arguments.out)
        .Add("samples", samples)
        .Add("image", image)
        .Add("outputs", taken.stats.Json())
        .Add("drawn", DescribeTones(taken.tones));
    if (arguments.stages) json.Add("stages", said_of_stages.json);
    absl::PrintF("%s\n", json.Text());
    return absl::OkStatus();
  }
  absl::PrintF("%s: %d samples%s%s\n", arguments.out, samples,
               arguments.stages ? absl::StrCat(", after each of ", sheet.columns, " stages") : "",
               SaidOfLabels(signature, arguments, image));
  absl::PrintF("%s%s", taken.stats.DescribeAll(), said_of_stages.text);
  const std::string tones =
      SaidOfTones(absl::StrCat("  ", image, " is drawn so that "), taken.tones);
  if (!tones.empty()) absl::PrintF("%s\n", tones);
  return absl::OkStatus();
}

}  // namespace

Command PreviewCommand() {
  const auto arguments = std::make_shared<PreviewArguments>();
  Command command{
      .name = "preview",
      .about = "Draw the samples that a trainer will get, as one PNG sheet",
      .more = kPreviewExamples,
      .options =
          {{"SPEC", "The spec, YAML or JSON", SpecPath(arguments->spec), true},
           {"--out", "The PNG file to write", OutputPath(arguments->out, ".png"), true},
           {"--epoch", "Epoch to show", Number(arguments->epoch)},
           {"--start", "First position in the epoch", Number(arguments->start)},
           {"--samples", "Number of samples", Number(arguments->samples, 1, 4096)},
           {"--stages", "Draw each sample as a row: what it looks like after each stage",
            Flag(arguments->stages)},
           {"--image", "Output to draw; left out: the first that looks like images",
            Text(arguments->image, "OUTPUT")},
           {"--labels",
            "Output whose numbers are drawn at declared boxes, or `none`; left out: an output with "
            "one whole number for each box, chosen by its name",
            Text(arguments->labels, "OUTPUT")},
           {"--classes",
            "A text file with the class names of all outputs, one per line, class 0 first; left "
            "out: "
            "the names that the data give each output",
            Text(arguments->classes_file, "FILE")},
           {"--cell", "Longest side of an image on the sheet, in pixels",
            Number(arguments->side, 16, 2048)},
           {"--json", "Print the values of the outputs as JSON", Flag(arguments->json)},
           {.name = "--values-of",  // for its own use
            .help = "",
            .value = Text(arguments->values_of, "IMAGE"),
            .hidden = true}},
      .run = [arguments]() -> absl::StatusOr<int> {
        if (!arguments->values_of.empty()) return AnswerRun(ValuesHere(*arguments));
        return Done(Preview(*arguments));
      }};
  Append(arguments->service.Options(), command.options);
  return command;
}

}  // namespace bulkhead::tools

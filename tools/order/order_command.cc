#include "tools/order/order_command.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "server/base/error.h"
#include "server/image/codecs/encode.h"
#include "server/sampler/order.h"
#include "server/spec/selection.h"
#include "tools/common/commands.h"
#include "tools/common/json.h"
#include "tools/local/find_progress.h"
#include "tools/local/local_data.h"
#include "tools/local/local_pipeline.h"
#include "tools/order/feature_values.h"
#include "tools/order/order_survey.h"
#include "tools/order/scatter_plot.h"

namespace bulkhead::tools {
namespace {

constexpr char kOrderExamples[] =
    R"(Records are numbered through all files of the source, or of all sources of a mixture, after
filter, split, skip and take. The files are indexed in this process;
records are read only with --feature.

Examples:
  bulkhead order train.yaml                      longest run from a single file
  bulkhead order train.yaml --png order.png      position and record, as a picture
  bulkhead order train.yaml --feature label --png labels.png
)";

constexpr uint64_t kMaxDots = 20'000;
constexpr size_t kMaxFileBorders = 50;

// "interleave {cycle_length: 4, block_length: 1}".
std::string OrderText(const v1::Order& order) {
  std::string text = order.ShortDebugString();
  text = absl::StrReplaceAll(text, {{"{ }", "{}"}, {"{ ", "{"}, {" }", "}"}});
  // Between a value and the next name; the first space stands behind the order's own name.
  const size_t brace = text.find('{');
  std::string fields = absl::StrReplaceAll(text.substr(brace), {{": ", ":"}});
  fields = absl::StrReplaceAll(fields, {{" ", ", "}});
  return absl::StrCat(text.substr(0, brace), absl::StrReplaceAll(fields, {{":", ": "}}));
}

// "0.9 of global {reshuffle: true} + 0.1 of sequential {}".
std::string OrderText(const v1::PipelineSpec& spec) {
  if (!spec.source().has_mixture()) return OrderText(spec.order());
  std::vector<std::string> parts;
  for (const v1::MixedSource& mixed : spec.source().mixture().sources()) {
    parts.push_back(absl::StrCat(mixed.weight(), " of ", OrderText(mixed.order())));
  }
  return absl::StrJoin(parts, " + ");
}

absl::Status WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kUnavailable, reason::kFileUnreadable,
      absl::StrCat(path, ": cannot be written: ", std::generic_category().message(errno)),
      {{"file", path}});
}

absl::Status WritePlot(const OrderOptions& options, const v1::PipelineSpec& spec,
                       const LocalData& source, uint64_t positions) {
  const SampleOrder& order = source.order();
  ScatterPlot plot;
  const std::string name = std::filesystem::path(options.spec).filename().string();
  plot.title = OrderText(spec);
  plot.x_label = absl::StrCat("position in epoch ", options.epoch);
  plot.y_label = options.feature.empty() ? "record" : absl::StrCat("value of ", options.feature);
  const std::vector<uint64_t> picked = PickPositions(positions, kMaxDots);
  plot.subtitle = absl::StrCat(
      name, ": ", source.record_count(), " records, ", source.file_records().size(),
      " file(s), seed ", spec.seed(),
      picked.size() < positions ? absl::StrCat(", ", picked.size(), " positions drawn") : "");
  if (options.feature.empty()) {
    for (const uint64_t position : picked) {
      plot.points.push_back({static_cast<double>(position),
                             static_cast<double>(order.RecordAt(options.epoch, position))});
    }
    double border = 0;
    for (const uint64_t count : source.file_records()) {
      plot.rules.push_back(border += static_cast<double>(count));
    }
    if (plot.rules.size() > kMaxFileBorders) plot.rules.clear();
  } else {
    std::vector<uint64_t> records;
    for (const uint64_t position : picked) {
      records.push_back(order.RecordAt(options.epoch, position));
    }
    BULKHEAD_ASSIGN_OR_RETURN(const std::vector<double> values,
                              ReadFeature(source, options.feature, records, ShowFinding()));
    for (size_t i = 0; i < picked.size(); ++i) {
      plot.points.push_back({static_cast<double>(picked[i]), values[i]});
    }
  }
  Image image;
  DrawScatter(plot, image);
  BULKHEAD_ASSIGN_OR_RETURN(const std::string png, EncodePng(image.view()));
  return WriteFile(options.png, png);
}

void PrintSurvey(const OrderOptions& options, const v1::PipelineSpec& spec, const LocalData& source,
                 const OrderSurvey& survey, std::ostream& out) {
  const std::string& file = source.file_names()[survey.longest_run_file];
  if (options.json) {
    JsonObject run;
    run.Add("records", survey.longest_run)
        .Add("first_position", survey.longest_run_position)
        .Add("file", file);
    JsonObject json;
    json.Add("spec", options.spec)
        .Add("order", OrderText(spec))
        .Add("epoch", options.epoch)
        .Add("records", source.record_count())
        .Add("files", static_cast<uint64_t>(source.file_records().size()))
        .Add("records_of_source", source.counts().records())
        .Add("records_in_part", source.counts().in_part())
        .Add("records_kept", source.counts().kept())
        .Add("samples_per_epoch", source.samples_per_epoch())
        .Add("positions_examined", survey.positions)
        .Add("longest_run", run)
        .Add("serial_correlation", survey.serial_correlation);
    if (!options.png.empty()) json.Add("png", options.png);
    out << json.Text() << "\n";
    return;
  }
  out << options.spec << ": " << OrderText(spec) << ", epoch " << options.epoch << ": "
      << source.record_count() << " records in " << source.file_records().size() << " file(s)\n";
  if (source.counts().records() != source.record_count()) {
    out << "  selected: "
        << (spec.source().has_mixture()
                ? absl::StrCat(source.record_count(), " of ", source.counts().records(), " records")
                : SelectionSummary(SelectionOf(spec), source.counts()))
        << "\n";
  }
  if (spec.source().has_mixture()) {
    out << "  an epoch draws " << source.samples_per_epoch() << " samples\n";
  }
  if (survey.positions < source.samples_per_epoch()) {
    out << "  looked at the first " << survey.positions << " positions (--positions)\n";
  }
  out << "  longest run from a single file: " << survey.longest_run << " records (" << file
      << ", from position " << survey.longest_run_position << ")\n";
  if (!std::isnan(survey.serial_correlation)) {
    out << "  correlation of neighbours: " << absl::StrFormat("%.4f", survey.serial_correlation)
        << " (1: in the source's order; 0: shuffled)\n";
  }
  if (!options.png.empty()) out << "  drawn in " << options.png << "\n";
}

}  // namespace

absl::Status RunOrder(const OrderOptions& options, std::ostream& out) {
  if (!options.feature.empty() && options.png.empty()) {
    return absl::InvalidArgumentError("--feature says what --png plots; give --png FILE as well");
  }
  BULKHEAD_ASSIGN_OR_RETURN(const v1::PipelineSpec spec, ReadSpecFile(options.spec));
  BULKHEAD_ASSIGN_OR_RETURN(const auto source,
                            LocalData::Create(spec, SpecFolder(options.spec), ShowFinding()));
  const uint64_t positions = std::min(source->samples_per_epoch(), options.max_positions);
  const OrderSurvey survey =
      SurveyOrder(source->order(), options.epoch, positions, source->file_records());
  if (!options.png.empty()) {
    BULKHEAD_RETURN_IF_ERROR(WritePlot(options, spec, *source, positions));
  }
  PrintSurvey(options, spec, *source, survey, out);
  return absl::OkStatus();
}

Command OrderCommand() {
  const auto options = std::make_shared<OrderOptions>();
  return {.name = "order",
          .about = "Show how random the order of a spec is",
          .more = kOrderExamples,
          .options = {{"SPEC", "The spec, YAML or JSON", SpecPath(options->spec), true},
                      {"--epoch", "Epoch to show, from 0", Number(options->epoch)},
                      {"--png", "PNG file for a plot of record against position",
                       OutputPath(options->png, ".png")},
                      {"--feature", "Plot this numeric feature's value instead of the record",
                       Text(options->feature, "NAME")},
                      {"--positions", "Look at this many positions at most",
                       Number(options->max_positions, 1)},
                      {"--json", "Print a JSON object", Flag(options->json)}},
          .run = [options] { return Done(RunOrder(*options, std::cout)); }};
}

}  // namespace bulkhead::tools

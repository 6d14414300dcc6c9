#include "tools/validate/validate_command.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/base/record_name.h"
#include "server/os/process/process_usage.h"
#include "server/sampler/batch_plan.h"
#include "server/spec/batch_layout.h"
#include "server/spec/batch_stages.h"
#include "server/spec/fingerprint.h"
#include "server/spec/memory_plan.h"
#include "server/spec/selection.h"
#include "server/spec/signature.h"
#include "server/spec/source_chain.h"
#include "server/spec/stage_signature.h"
#include "server/spec/yaml/yaml.h"
#include "server/spec/yaml/yaml_tree.h"
#include "tools/common/colour.h"
#include "tools/common/near_path.h"
#include "tools/local/local_pipeline.h"

namespace bulkhead {
namespace {

constexpr size_t kMostClassesShown = 10;

using tools::Colour;

// `text` in that colour where `stream` writes to a terminal.
std::string Coloured(absl::string_view text, Colour colour, const std::ostream& stream) {
  if (&stream == &std::cout) return tools::Coloured(text, colour, stdout);
  if (&stream == &std::cerr) return tools::Coloured(text, colour, stderr);
  return std::string(text);
}

// Prints the lines of a problem, which begin with its place.
void PrintProblems(absl::string_view message, std::ostream& err) {
  for (const absl::string_view line : absl::StrSplit(message, '\n')) {
    const size_t end = line.find(": ");
    const absl::string_view place = line.substr(0, end == line.npos ? 0 : end + 1);
    err << Coloured(place, Colour::kRed, err) << line.substr(place.size()) << "\n";
  }
}

// A valid spec, and what follows from it.
struct Report {
  v1::PipelineSpec spec;
  SpecNotes notes;
  PipelineSignature signature;
  v1::MemoryPlan memory;
  std::vector<std::string> random_stages;
  std::optional<DataCounts> counts;  // where the data was looked at
  std::vector<CacheReport> caches;
};

// The text of a file, or of standard input; at most one byte more than a spec may have.
absl::StatusOr<std::string> ReadText(const std::string& name) {
  if (IsObjectUrl(name)) return tools::ReadSpecFile(name).status();
  std::ifstream file;
  if (name != "-") {
    file.open(name, std::ios::binary);
    if (!file) {
      return MakeError(absl::StatusCode::kNotFound, reason::kFileNotFound,
                       absl::StrCat(name, ": cannot be opened; ", tools::NearPath(name)),
                       {{"file", name}});
    }
  }
  std::istream& stream = name == "-" ? std::cin : file;
  std::string text(kMaxYamlBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (stream.bad() || (text.empty() && !stream.eof())) {
    return MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                     absl::StrCat(name, ": cannot be read; is it a file?"), {{"file", name}});
  }
  return text;
}

// What the data of a spec file says.
absl::Status ExamineData(const std::string& name, const DataLook& look, Report& report) {
  std::error_code ignored;
  const auto place = std::filesystem::absolute(name == "-" ? "." : name, ignored);
  const std::string folder = name == "-" ? place.string() : place.parent_path().string();
  if (look.count) {
    BULKHEAD_ASSIGN_OR_RETURN(report.counts, look.count(report.spec, folder));
    BatchPlan::Config plan;
    plan.samples_per_epoch = report.counts->whole.samples();
    plan.batch_size = report.spec.batch().size();
    plan.last = report.spec.batch().last();
    BULKHEAD_RETURN_IF_ERROR(BatchPlan(plan).Check());
  }
  if (!look.kept || report.caches.empty()) return absl::OkStatus();
  absl::StatusOr<KeptLook> kept = look.kept(report.spec, folder);
  // With several, it is unknown which of them kept what.
  if (kept.ok() && report.caches.size() > 1) {
    kept = absl::FailedPreconditionError("only one of a spec's cache stages can be");
  }
  const bool mixture = report.spec.source().has_mixture();
  for (CacheReport& cache : report.caches) {
    cache.look_status = kept.status();
    if (kept.ok()) cache.look = *kept;
    if (report.counts.has_value() && !mixture) cache.samples = report.counts->whole.samples();
  }
  return absl::OkStatus();
}

absl::StatusOr<Report> Examine(const std::string& name, const DataLook& look) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::string text, ReadText(name));
  Report report;
  BULKHEAD_ASSIGN_OR_RETURN(report.spec,
                            ParseSpec(text, name == "-" ? "stdin" : name, report.notes));
  BULKHEAD_ASSIGN_OR_RETURN(report.signature, InferSignature(report.spec));
  BULKHEAD_ASSIGN_OR_RETURN(report.memory, PlanMemory(report.signature, MemoryPlanOptions{}));
  std::set<std::string> named;  // the common stages are those of every source
  for (const SourceChain& chain : SourceChains(report.spec)) {
    for (const SourceChain::Step& step : chain.steps) {
      if (!IsRandomStage(*step.stage) || !named.insert(step.path).second) continue;
      report.random_stages.push_back(absl::StrCat(step.path, ".", StageName(*step.stage)));
    }
  }
  for (int i = 0; i < report.spec.batch_stages_size(); ++i) {
    const v1::BatchStage& stage = report.spec.batch_stages(i);
    if (!IsRandomBatchStage(stage)) continue;
    report.random_stages.push_back(absl::StrCat(BatchStagePath(i), ".", StageName(stage)));
  }
  report.caches = ReportCaches(report.spec, report.signature);
  BULKHEAD_RETURN_IF_ERROR(ExamineData(name, look, report));
  return report;
}

// "samples", "rows" or "extents", as clients call it; "normalized_by_client".
std::string PackingOf(const v1::TensorSchema& tensor) {
  if (tensor.packing() == v1::PACKING_UNSPECIFIED) return "samples";
  if (tensor.has_normalization()) return "normalized_by_client";
  return tensor.packing() == v1::PACKING_ROWS ? "rows" : "extents";
}

// "[64,224,224,3]", as trainers get it; "<=" where a batch has as much as it needs.
std::string BatchShape(const v1::TensorSchema& tensor, uint64_t batch_size) {
  std::vector<std::string> extents = {absl::StrCat(batch_size)};
  for (const int64_t extent : tensor.shape()) extents.push_back(absl::StrCat(extent));
  if (tensor.packing() == v1::PACKING_ROWS) {
    extents.erase(extents.begin());
    extents[0] = absl::StrCat("<=", batch_size * static_cast<uint64_t>(tensor.shape(0)));
  } else if (PackingOf(tensor) == "extents") {
    const size_t height = tensor.packing() == v1::PACKING_EXTENTS ? 1 : 2;
    for (const size_t i : {height, height + 1}) extents[i] = absl::StrCat("<=", extents[i]);
  }
  return absl::StrCat("[", absl::StrJoin(extents, ","), "]");
}

std::string TypeName(const v1::TensorSchema& tensor) {
  if (tensor.has_normalization()) {
    return absl::StrCat(DTypeName(tensor.dtype()), NormalizationSuffix(tensor.normalization()));
  }
  return tensor.dtype() == v1::DTYPE_BYTES ? absl::StrCat("bytes<=", tensor.element_bytes())
                                           : std::string(DTypeName(tensor.dtype()));
}

void PrintCounts(const v1::PipelineSpec& spec, const DataCounts& counts, std::ostream& out) {
  const v1::SelectionCounts& whole = counts.whole;
  out << "  samples an epoch: ";
  if (!spec.source().has_mixture()) {
    const internal::v1::Selection selection = SelectionOf(spec);
    out << (whole.records() > 0 ? SelectionSummary(selection, whole)
                                : absl::StrCat(whole.samples()))
        << "\n";
    return;
  }
  out << whole.samples();
  if (whole.records() > 0) {
    out << ", drawn from sources of " << whole.records() << " records";
  }
  out << "\n";
  auto counted = counts.selections.begin();
  for (int i = 0; i < spec.source().mixture().sources_size(); ++i) {
    const internal::v1::Selection selection = SelectionOf(spec, i);
    if (counted == counts.selections.end() || !IsSelective(selection)) continue;
    out << "  " << MixedSourcePath(i) << ": " << SelectionSummary(selection, *counted++) << "\n";
  }
}

// "  classes of label: 3 (40 cat, 1 cta, 39 dog)". Of many the rarest are shown, among which a
// mistyped one is.
void PrintClasses(const DataCounts& counts, std::ostream& out) {
  for (const auto& [feature, classes] : counts.classes) {
    std::vector<std::pair<uint64_t, std::string>> shown;
    for (const auto& [name, count] : classes) shown.emplace_back(count, name);
    const bool many = shown.size() > kMostClassesShown;
    if (many) {
      std::sort(shown.begin(), shown.end());
      shown.resize(kMostClassesShown);
    }
    out << "  classes of " << Printable(feature) << ": " << classes.size()
        << (many ? " (the rarest: " : " (")
        << absl::StrJoin(shown, ", ",
                         [](std::string* text, const auto& one) {
                           absl::StrAppend(text, one.first, " ", Printable(one.second));
                         })
        << ")\n";
  }
}

void PrintTable(const std::string& name, const Report& report, std::ostream& out) {
  const v1::BatchSchema& schema = report.signature.schema;
  std::vector<std::array<std::string, 4>> rows = {{"output", "dtype", "shape", "bytes a batch"}};
  for (const v1::TensorSchema& tensor : schema.tensors()) {
    rows.push_back({tensor.name(), TypeName(tensor), BatchShape(tensor, schema.batch_size()),
                    absl::StrCat(tensor.sample_bytes() * schema.batch_size())});
    if (tensor.packing() != v1::PACKING_ROWS) continue;
    rows.push_back({OffsetsName(tensor.name()), std::string(DTypeName(v1::DTYPE_INT64)),
                    absl::StrCat("[", schema.batch_size() + 1, "]"), "the client's"});
  }
  std::array<size_t, 4> widths{};
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  out << name << ": " << Coloured("valid", Colour::kGreen, out) << "\n";
  for (const auto& row : rows) {
    out << absl::StrFormat("  %-*s  %-*s  %-*s  %*s\n", widths[0], row[0], widths[1], row[1],
                           widths[2], row[2], widths[3], row[3]);
  }
  if (report.counts.has_value()) {
    PrintCounts(report.spec, *report.counts, out);
    PrintClasses(*report.counts, out);
    out << "  the data were indexed, not decoded; `bulkhead scan " << name
        << "` tries every record\n";
  }
  out << "  batch: " << BytesText(schema.batch_bytes())
      << "\n  arena: " << report.memory.slot_count() << " slots, "
      << BytesText(report.memory.arena_bytes()) << "\n  one sample in a worker: at most "
      << BytesText(report.signature.sample_bytes) << "\n  random stages: "
      << (report.random_stages.empty() ? "none" : absl::StrJoin(report.random_stages, ", "))
      << "\n";
  for (const CacheReport& cache : report.caches) out << "  " << DescribeCache(cache) << "\n";
}

// Paths of the spec's data that are not there, with their place in the spec; a pattern is not
// looked at. `name` is the spec's file, from whose folder they start.
std::vector<std::string> MissingPaths(const std::string& name, const v1::PipelineSpec& spec) {
  const auto folder = std::filesystem::path(name == "-" ? "" : name).parent_path();
  std::vector<std::string> missing;
  const auto look = [&](const std::string& place, const std::string& path) {
    std::error_code error;
    if (path.empty() || path.find_first_of("*?[{") != std::string::npos) return;
    if (IsObjectUrl(path)) return;  // the service alone asks stores
    if (std::filesystem::exists(folder / path, error) || error) return;
    missing.push_back(absl::StrCat(place, ": ", path));
  };
  for (const SourceChain& chain : SourceChains(spec)) {
    const v1::Source& source = *chain.source;
    const std::string place = chain.path.empty() ? "source" : absl::StrCat(chain.path, ".source");
    look(place + ".image_folder.path", source.image_folder().path());
    look(place + ".image_list.path", source.image_list().path());
    for (const std::string& file : source.tfrecord().files()) look(place + ".tfrecord.files", file);
    for (const std::string& file : source.tar().files()) look(place + ".tar.files", file);
  }
  return missing;
}

// What is doubtful about a valid spec, a line each.
std::vector<std::string> Warnings(const std::string& name, const Report& report) {
  std::vector<std::string> warnings = report.notes.warnings;
  for (const CacheReport& cache : report.caches) {
    if (const auto warning = CacheWarning(cache)) {
      warnings.push_back(absl::StrCat(name, ": warning: ", *warning));
    }
  }
  if (!report.counts.has_value()) {  // else all were found
    for (const std::string& path : MissingPaths(name, report.spec)) {
      warnings.push_back(
          absl::StrCat(name, ": warning: ", path, " does not exist on this machine"));
    }
  }
  const v1::MemoryPlan& plan = report.memory;
  if (plan.arena_bytes() + plan.sample_bytes() > MemoryLimitBytes()) {
    warnings.push_back(absl::StrCat(
        name, ": warning: batch.size: the arena takes ", plan.slot_count(), " slots x ",
        BytesText(plan.slot_bytes()), " = ", BytesText(plan.arena_bytes()),
        " and a sample in a worker up to ", BytesText(plan.sample_bytes()),
        ", but this machine has ", BytesText(MemoryLimitBytes()),
        "; make batches or images smaller, or max_bytes and max_count as small as the data allow"));
  }
  return warnings;
}

using google::protobuf::ListValue;
using google::protobuf::Struct;

// JSON with the keys of every object in order, so that equal reports give equal text: protobuf's
// printer, which writes the scalars here, leaves the order of keys to a hash map. `newline` ends a
// line and begins the next one at the value's own margin.
std::string SortedJson(const google::protobuf::Value& value, const std::string& newline) {
  const std::string inner = newline + "  ";
  std::vector<std::string> items;
  if (value.has_list_value()) {
    for (const auto& item : value.list_value().values()) items.push_back(SortedJson(item, inner));
  } else if (value.has_struct_value()) {
    std::map<std::string, std::string> members;
    for (const auto& [key, member] : value.struct_value().fields()) {
      google::protobuf::Value name;
      name.set_string_value(key);
      members[key] = SortedJson(name, inner) + ": " + SortedJson(member, inner);
    }
    for (const auto& [key, text] : members) items.push_back(text);
  } else {
    std::string text;
    const auto status = google::protobuf::util::MessageToJsonString(value, &text);
    return status.ok() ? text : "null";
  }
  const bool list = value.has_list_value();
  const std::string body =
      items.empty() ? "" : absl::StrCat(inner, absl::StrJoin(items, "," + inner), newline);
  return absl::StrCat(list ? "[" : "{", body, list ? "]" : "}");
}

void AddStrings(const std::vector<std::string>& texts, ListValue& list) {
  for (const std::string& text : texts) list.add_values()->set_string_value(text);
}

using Fields = google::protobuf::Map<std::string, google::protobuf::Value>;

void AddCounts(const v1::SelectionCounts& counts, Fields& fields) {
  const auto number = [&](const char* key, uint64_t value) {
    fields[key].set_number_value(static_cast<double>(value));
  };
  if (counts.records() > 0) {
    number("records", counts.records());
    number("records_in_part", counts.in_part());
    number("records_kept", counts.kept());
  }
  number("samples_per_epoch", counts.samples());
}

void AddClasses(const std::map<std::string, std::map<std::string, uint64_t>>& features,
                Struct& object) {
  for (const auto& [feature, classes] : features) {
    Fields& counts =
        *(*object.mutable_fields())[Printable(feature)].mutable_struct_value()->mutable_fields();
    for (const auto& [name, count] : classes) {
      counts[Printable(name)].set_number_value(static_cast<double>(count));
    }
  }
}

// Whether a source has a `classes_file`, whose names, which are not read here, count for the
// fingerprint.
bool NamesClassesFile(const v1::PipelineSpec& spec) {
  const auto has = [](const v1::Source& source) {
    return !source.image_list().classes_file().empty() ||
           !source.image_folder().classes_file().empty();
  };
  const auto& mixed = spec.source().mixture().sources();
  return has(spec.source()) || std::any_of(mixed.begin(), mixed.end(),
                                           [&](const auto& part) { return has(part.source()); });
}

void AddReport(const std::string& name, const Report& report, Struct& object) {
  auto& fields = *object.mutable_fields();
  const v1::BatchSchema& schema = report.signature.schema;
  ListValue& outputs = *fields["outputs"].mutable_list_value();
  for (const v1::TensorSchema& tensor : schema.tensors()) {
    auto& output = *outputs.add_values()->mutable_struct_value()->mutable_fields();
    output["name"].set_string_value(tensor.name());
    output["dtype"].set_string_value(std::string(DTypeName(tensor.dtype())));
    ListValue& shape = *output["shape"].mutable_list_value();
    for (const int64_t extent : tensor.shape()) {
      shape.add_values()->set_number_value(static_cast<double>(extent));
    }
    output["element_bytes"].set_number_value(static_cast<double>(tensor.element_bytes()));
    output["sample_bytes"].set_number_value(static_cast<double>(tensor.sample_bytes()));
    output["batch_offset"].set_number_value(static_cast<double>(tensor.batch_offset()));
    output["packing"].set_string_value(PackingOf(tensor));
  }
  const auto number = [&](const char* key, uint64_t value) {
    fields[key].set_number_value(static_cast<double>(value));
  };
  number("batch_size", schema.batch_size());
  number("batch_bytes", schema.batch_bytes());
  number("slot_count", report.memory.slot_count());
  number("slot_bytes", report.memory.slot_bytes());
  number("arena_bytes", report.memory.arena_bytes());
  number("sample_bytes", report.signature.sample_bytes);
  if (report.counts.has_value()) {
    AddCounts(report.counts->whole, fields);
    ListValue& selections = *fields["selections"].mutable_list_value();
    for (const v1::SelectionCounts& counts : report.counts->selections) {
      AddCounts(counts, *selections.add_values()->mutable_struct_value()->mutable_fields());
    }
    if (!report.counts->classes.empty()) {
      AddClasses(report.counts->classes, *fields["classes"].mutable_struct_value());
    }
  }
  ListValue& caches = *fields["caches"].mutable_list_value();
  for (const CacheReport& cache : report.caches) {
    auto& object = *caches.add_values()->mutable_struct_value()->mutable_fields();
    object["path"].set_string_value(cache.path);
    object["sample_bytes"].set_number_value(static_cast<double>(cache.KeptBytes()));
    object["bytes"].set_number_value(static_cast<double>(cache.AllBytes()));
    object["samples_measured"].set_number_value(
        static_cast<double>(cache.look.value_or(KeptLook{}).samples));
    if (!cache.look_status.ok()) {
      object["not_measured"].set_string_value(std::string(cache.look_status.message()));
    }
  }
  if (report.counts.has_value()) {
    fields["bytes_fingerprint"].set_string_value(report.counts->bytes_fingerprint);
  } else if (!NamesClassesFile(report.spec)) {
    fields["bytes_fingerprint"].set_string_value(BytesFingerprint(report.spec));
  }
  fields["spec"].set_string_value(SpecToYaml(report.spec));
  AddStrings(report.random_stages, *fields["random_stages"].mutable_list_value());
  AddStrings(Warnings(name, report), *fields["warnings"].mutable_list_value());
}

void AddProblems(const absl::Status& status, Struct& object) {
  auto& fields = *object.mutable_fields();
  const ErrorInfo info = GetErrorInfo(status).value_or(ErrorInfo{});
  fields["reason"].set_string_value(info.reason);
  AddStrings(absl::StrSplit(status.message(), '\n'), *fields["problems"].mutable_list_value());
}

}  // namespace

int ValidateFiles(const std::vector<std::string>& files, bool json, const DataLook& look,
                  std::ostream& out, std::ostream& err) {
  const std::string warned = absl::StrCat(": ", Coloured("warning:", Colour::kYellow, err), " ");
  int exit_code = 0;
  ListValue objects;
  for (const std::string& name : files) {
    const absl::StatusOr<Report> report = Examine(name, look);
    Struct& object = *objects.add_values()->mutable_struct_value();
    (*object.mutable_fields())["file"].set_string_value(name);
    (*object.mutable_fields())["valid"].set_bool_value(report.ok());
    if (!report.ok()) {
      exit_code = 1;
      PrintProblems(report.status().message(), err);
      AddProblems(report.status(), object);
      continue;
    }
    AddReport(name, *report, object);
    if (!json) PrintTable(name, *report, out);
    for (const std::string& warning : Warnings(name, *report)) {
      err << absl::StrReplaceAll(warning, {{": warning: ", warned}}) << "\n";
    }
  }
  if (json) {
    google::protobuf::Value value;
    *value.mutable_list_value() = std::move(objects);
    out << SortedJson(value, "\n") << "\n";
  }
  return exit_code;
}

tools::Command ValidateCommand(DataLook look, PurityFn purity) {
  struct Arguments {
    PurityRequest request;
    std::string target;
    bool data = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  PurityRequest& request = arguments->request;
  tools::Command command{
      .name = "validate",
      .about = "Check specs and print what their batches will be; no data is read without --data",
      .more =
          "Exit code: 0 when every spec is valid (and pure), 1 when one is not; its problems "
          "are\n"
          "printed as file:line:column: what is wrong.\n"
          "\n"
          "Examples:\n"
          "  bulkhead validate pipeline.yaml\n"
          "  bulkhead validate --json specs/*.yaml\n"
          "  bulkhead validate --purity 100 --python-path code train.yaml\n"
          "  generate-spec | bulkhead validate -\n",
      .options =
          {{"SPEC", "Spec files, YAML or JSON; - reads standard input",
            tools::SpecPaths(request.files), true},
           {"--json", "Print a JSON array with one object for each file",
            tools::Flag(arguments->request.json)},
           {"--data",
            "Also index the data, in this process: count all records, and those left after filter, "
            "split, skip and take; measure what a cache stage keeps. Decodes nothing: `bulkhead "
            "scan` finds damaged files",
            tools::Flag(arguments->data)},
           {.name = "--target",
            .help = "A running service, unix:/path, host:port or a target file, that counts the "
                    "records on its "
                    "machine",
            .value = tools::Text(arguments->target, "ADDRESS"),
            .with = "--data"},
           {"--purity",
            "Also make the first N samples twice, in two processes and in opposite orders, and "
            "name the stage whose bytes differ",
            tools::Number(request.samples, 1)},
           {.name = "--purity-run",  // for its own use
            .help = "",
            .value = tools::Text(request.run, "ORDER"),
            .hidden = true}},
      .run = [arguments, look = std::move(look),
              purity = std::move(purity)]() -> absl::StatusOr<int> {
        if (!arguments->request.run.empty()) return purity(arguments->request);
        DataLook asked = arguments->data ? look : DataLook{};
        if (!arguments->target.empty()) {
          asked.count = [&](const auto& spec, const auto& base_dir) {
            return look.count_at(arguments->target, spec, base_dir);
          };
        }
        const int code = ValidateFiles(arguments->request.files, arguments->request.json, asked,
                                       std::cout, std::cerr);
        return code == 0 && arguments->request.samples > 0 ? purity(arguments->request) : code;
      }};
  for (tools::Option& option : request.code.Options()) {
    option.with = "--purity";
    command.options.push_back(std::move(option));
  }
  return command;
}

}  // namespace bulkhead

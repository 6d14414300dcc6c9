#include "tools/validate/validate_command.h"

#include <cstdio>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/struct.pb.h"
#include "tools/common/colour.h"
#include "tools/validate/spec_report_text.h"

namespace bulkhead {
namespace {

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

}  // namespace

int ValidateFiles(const std::vector<std::string>& files, bool json, const DataLook& look,
                  std::ostream& out, std::ostream& err) {
  const std::string warned = absl::StrCat(": ", Coloured("warning:", Colour::kYellow, err), " ");
  int exit_code = 0;
  google::protobuf::ListValue objects;
  for (const std::string& name : files) {
    const absl::StatusOr<SpecReport> report = ExamineSpec(name, look);
    google::protobuf::Struct& object = *objects.add_values()->mutable_struct_value();
    (*object.mutable_fields())["file"].set_string_value(name);
    (*object.mutable_fields())["valid"].set_bool_value(report.ok());
    if (!report.ok()) {
      exit_code = 1;
      PrintProblems(report.status().message(), err);
      AddProblems(report.status(), object);
      continue;
    }
    AddReport(name, *report, object);
    if (!json) {
      out << name << ": " << Coloured("valid", Colour::kGreen, out) << "\n";
      PrintReport(name, *report, out);
    }
    for (const std::string& warning : Warnings(name, *report)) {
      err << absl::StrReplaceAll(warning, {{": warning: ", warned}}) << "\n";
    }
  }
  if (json) {
    google::protobuf::Value value;
    *value.mutable_list_value() = std::move(objects);
    out << SortedJson(value) << "\n";
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

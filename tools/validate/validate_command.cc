#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/struct.pb.h"
#include "tools/common/colour.h"
#include "tools/common/commands.h"
#include "tools/purity/purity_check.h"
#include "tools/validate/data_look.h"
#include "tools/validate/spec_report.h"

namespace bulkhead::tools {
namespace {

constexpr char kValidateExamples[] =
    R"(Exit code: 0 when every spec is valid (and pure), 1 when one is not; its problems are
printed as file:line:column: what is wrong.

Examples:
  bulkhead validate pipeline.yaml
  bulkhead validate --json specs/*.yaml
  bulkhead validate --purity 100 --python-path code train.yaml
  generate-spec | bulkhead validate -
)";

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

Command ValidateCommand() {
  struct Arguments {
    PurityRequest request;
    std::string target;
    bool data = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  PurityRequest& request = arguments->request;
  Command command{
      .name = "validate",
      .about = "Check specs and print what their batches will be; no data is read without --data",
      .more = kValidateExamples,
      .options =
          {{"SPEC", "Spec files, YAML or JSON; - reads standard input", SpecPaths(request.files),
            true},
           {"--json", "Print a JSON array with one object for each file", Flag(request.json)},
           {"--data",
            "Also index the data, in this process: count all records, and those left after filter, "
            "split, skip and take; measure what a cache stage keeps. Decodes nothing: `bulkhead "
            "scan` finds damaged files",
            Flag(arguments->data)},
           {.name = "--target",
            .help = "A running service, unix:/path, host:port or a target file, that counts the "
                    "records on its machine",
            .value = Text(arguments->target, "ADDRESS"),
            .with = "--data"},
           {"--purity",
            "Also make the first N samples twice, in two processes and in opposite orders, and "
            "name the stage whose bytes differ",
            Number(request.samples, 1)},
           {.name = "--purity-run",  // for its own use
            .help = "",
            .value = Text(request.run, "ORDER"),
            .hidden = true}},
      .run = [arguments]() -> absl::StatusOr<int> {
        const PurityRequest& asked = arguments->request;
        if (!asked.run.empty()) return CheckPurity(asked);
        DataLook look;
        if (arguments->data) look = {CountHere, LookAtKept};
        if (!arguments->target.empty()) look.count = std::bind_front(CountAt, arguments->target);
        const int code = ValidateFiles(asked.files, asked.json, look, std::cout, std::cerr);
        return code == 0 && asked.samples > 0 ? CheckPurity(asked) : code;
      }};
  for (Option& option : request.code.Options()) {
    option.with = "--purity";
    command.options.push_back(std::move(option));
  }
  return command;
}

}  // namespace bulkhead::tools

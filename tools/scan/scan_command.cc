#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "tools/common/command_line.h"
#include "tools/common/commands.h"
#include "tools/common/progress_line.h"
#include "tools/common/service_options.h"
#include "tools/local/local_pipeline.h"
#include "tools/scan/exclusion.h"
#include "tools/scan/good_spec.h"
#include "tools/scan/scan_run.h"

namespace bulkhead::tools {
namespace {

constexpr char kScanExamples[] =
    "Makes each record of the spec's data into a sample once, in sandboxed workers of a service "
    "of\n"
    "its own, and prints those that are missing, empty, damaged or refused by a stage. Images are\n"
    "decoded whole, even if a crop needs only a part.\n"
    "\n"
    "Exit code: 0 when all are good, 1 when one is not or the scan failed.\n"
    "\n"
    "Examples:\n"
    "  bulkhead scan train.yaml\n"
    "  bulkhead scan train.yaml --exclude-list data/good.txt     the list without its bad lines\n"
    "  bulkhead scan train.yaml --write-spec good.yaml           the spec without its bad "
    "records\n";

struct ScanArguments {
  std::string spec;
  std::string exclude_list;
  std::string write_spec;
  ServiceOptions service;
  bool json = false;
};

// "3 bad: 1 FILE_NOT_FOUND, 2 TRUNCATED_IMAGE".
std::string Summary(uint64_t records, const std::vector<Finding>& findings) {
  std::map<std::string, uint64_t> reasons;
  for (const Finding& finding : findings) ++reasons[finding.reason];
  return absl::StrCat(records, records == 1 ? " record" : " records", " read, ", findings.size(),
                      " bad", findings.empty() ? "" : ": ",
                      absl::StrJoin(reasons, ", ", [](std::string* out, const auto& reason) {
                        absl::StrAppend(out, reason.second, " ", reason.first);
                      }));
}

void PrintJson(const std::string& spec, uint64_t records, const std::vector<Finding>& findings) {
  std::printf("%s\n", JsonObject()
                          .Add("spec", spec)
                          .Add("records", records)
                          .Add("bad", static_cast<uint64_t>(findings.size()))
                          .AddEach("findings", findings, std::mem_fn(&Finding::Json))
                          .Text()
                          .c_str());
}

absl::Status RunScan(const ScanArguments& arguments, std::vector<Finding>& findings) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::PipelineSpec spec, ReadSpecFile(arguments.spec));
  const std::string base_dir = SpecFolder(arguments.spec);
  std::optional<Exclusion> exclusion;
  if (!arguments.exclude_list.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(exclusion, Exclusion::To(arguments.exclude_list, spec, base_dir));
  }
  std::optional<GoodSpec> good_spec;
  if (!arguments.write_spec.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(good_spec, GoodSpec::To(arguments.write_spec, arguments.spec));
  }
  ProgressLine line;
  ScanOptions options;
  options.service = arguments.service.Embedded();
  options.on_finding = [&](const Finding& finding) {
    findings.push_back(finding);
    if (arguments.json) return;
    line.Clear();
    std::printf("%s\n", finding.Text().c_str());
    std::fflush(stdout);
  };
  options.on_progress = [&](const std::string& text) {
    if (line.Due()) line.Show(text);
  };
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t records, Scan(spec, base_dir, options));
  line.Finish(Summary(records, findings));
  if (arguments.json) PrintJson(arguments.spec, records, findings);
  if (good_spec.has_value()) {
    BULKHEAD_ASSIGN_OR_RETURN(const std::string written, good_spec->Write(spec, findings));
    std::fprintf(stderr, "%s\n", written.c_str());
  }
  if (!exclusion.has_value()) return absl::OkStatus();
  BULKHEAD_RETURN_IF_ERROR(exclusion->Write(findings));
  std::fprintf(stderr, "%s\n", exclusion->NextStep(findings).c_str());
  return absl::OkStatus();
}

absl::StatusOr<int> RunScanCommand(const ScanArguments& arguments) {
  std::vector<Finding> findings;
  BULKHEAD_RETURN_IF_ERROR(RunScan(arguments, findings));
  return findings.empty() ? 0 : kFailed;
}

}  // namespace

Command ScanCommand() {
  const auto arguments = std::make_shared<ScanArguments>();
  Command command{
      .name = "scan",
      .about = "Read all data of a spec, and list every record that cannot be used",
      .more = kScanExamples,
      .options =
          {{"SPEC", "A spec, YAML or JSON", SpecPath(arguments->spec), true},
           {"--exclude-list",
            "Write what leaves the bad ones out: an image list without their lines, of other "
            "data the names of their records",
            OutputPath(arguments->exclude_list)},
           {"--write-spec",
            "Write the spec with an `exclude` of the bad records, into the spec's own folder",
            OutputPath(arguments->write_spec)},
           {"--json", "Print JSON", Flag(arguments->json)}},
      .run = [arguments] { return RunScanCommand(*arguments); }};
  Append(arguments->service.OwnOptions(), command.options);
  return command;
}

}  // namespace bulkhead::tools

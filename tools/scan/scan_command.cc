#include <cstdio>
#include <functional>
#include <map>
#include <memory>
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
#include "tools/scan/scan_run.h"

namespace bulkhead::tools {
namespace {

constexpr char kScanExamples[] =
    R"(Makes each record of the spec's data into a sample once, in sandboxed workers of a service of
its own, and prints those that are missing, empty, damaged or refused by a stage. Images are
decoded whole, even if a crop needs only a part.

Exit code: 0 when all are good, 1 when one is not or the scan failed.

Examples:
  bulkhead scan train.yaml
  bulkhead scan train.yaml --exclude-list data/good.txt     the list without its bad lines
  bulkhead scan train.yaml --write-spec good.yaml           the spec without its bad records
)";

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
  const std::string& exclude_list = arguments.exclude_list;
  const std::string& good_spec = arguments.write_spec;
  if (!exclude_list.empty()) {
    BULKHEAD_RETURN_IF_ERROR(CheckExclusion(exclude_list, spec, base_dir));
  }
  if (!good_spec.empty()) BULKHEAD_RETURN_IF_ERROR(CheckGoodSpec(good_spec, arguments.spec));
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
  if (!good_spec.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(const std::string written,
                              WriteGoodSpec(good_spec, arguments.spec, spec, findings));
    std::fprintf(stderr, "%s\n", written.c_str());
  }
  if (!exclude_list.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(const std::string written,
                              WriteExclusion(exclude_list, spec, base_dir, findings));
    std::fprintf(stderr, "%s\n", written.c_str());
  }
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

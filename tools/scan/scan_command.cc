#include "tools/scan/scan_command.h"

#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "tools/common/command_line.h"
#include "tools/common/progress_line.h"
#include "tools/common/user_code_options.h"
#include "tools/local/local_pipeline.h"
#include "tools/scan/exclusion.h"
#include "tools/scan/scan_run.h"

namespace bulkhead::tools {
namespace {

constexpr char kExamples[] =
    "Makes each record of the spec's data into a sample once, in sandboxed workers of a service "
    "of\n"
    "its own, and prints those that are missing, empty, damaged or refused by a stage. Images are\n"
    "decoded whole, also where a crop needs a part of them.\n"
    "\n"
    "Exit code: 0 when all are good, 1 when one is not or the scan failed.\n"
    "\n"
    "Examples:\n"
    "  bulkhead scan train.yaml\n"
    "  bulkhead scan train.yaml --exclude-list data/good.txt     the list without its bad lines\n"
    "  bulkhead scan records.yaml --exclude-list bad.txt         names for the quarantine\n";

struct ScanArguments {
  std::string spec;
  std::string exclude_list;
  UserCodeOptions code;
  uint32_t workers = 0;
  uint32_t threads = 0;
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
  std::vector<JsonObject> bad;
  for (const Finding& finding : findings) bad.push_back(finding.Json());
  std::printf("%s\n", JsonObject()
                          .Add("spec", spec)
                          .Add("records", records)
                          .Add("bad", static_cast<uint64_t>(findings.size()))
                          .Add("findings", bad)
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
  ProgressLine line;
  ScanOptions options;
  options.service.workers = arguments.workers;
  options.service.threads = arguments.threads;
  options.service.python = arguments.code.python;
  options.service.python_path = arguments.code.python_paths;
  options.service.native_path = arguments.code.native_paths;
  options.on_finding = [&](const Finding& finding) {
    findings.push_back(finding);
    if (arguments.json) return;
    std::printf("%s\n", finding.Text().c_str());
    std::fflush(stdout);
  };
  options.on_progress = [&](const std::string& text) {
    if (line.Due()) line.Show(text);
  };
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t records, Scan(spec, base_dir, options));
  line.Finish(Summary(records, findings));
  if (arguments.json) PrintJson(arguments.spec, records, findings);
  if (!exclusion.has_value()) return absl::OkStatus();
  BULKHEAD_RETURN_IF_ERROR(exclusion->Write(findings));
  std::fprintf(stderr, "%s\n", exclusion->NextStep().c_str());
  return absl::OkStatus();
}

int RunScanCommand(const ScanArguments& arguments) {
  std::vector<Finding> findings;
  const absl::Status status = RunScan(arguments, findings);
  if (status.ok()) return findings.empty() ? 0 : 1;
  std::fprintf(stderr, "bulkhead scan: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace

void AddScanCommand(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<ScanArguments>();
  CLI::App* command = app.add_subcommand(
      "scan", "Read all data of a spec, and list every record that cannot be used");
  command->footer(kExamples);
  command->add_option("SPEC", arguments->spec, "A spec, YAML or JSON")->required();
  command->add_option("--exclude-list", arguments->exclude_list,
                      "Write what leaves the bad ones out: an image list without their lines, of "
                      "other data the names of their records");
  command->add_option("--workers", arguments->workers, "Worker processes")->check(AtLeastOne());
  command->add_option("--threads", arguments->threads, "Threads of each worker")
      ->check(AtLeastOne());
  arguments->code.AddTo(*command);
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments, &exit_code] { exit_code = RunScanCommand(*arguments); });
}

}  // namespace bulkhead::tools

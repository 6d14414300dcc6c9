#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "tools/common/command_line.h"
#include "tools/common/commands.h"
#include "tools/common/progress_line.h"
#include "tools/doctor/doctor_report.h"
#include "tools/doctor/examination.h"

namespace bulkhead::tools {
namespace {

constexpr char kDoctorExamples[] =
    R"(Runs the spec in the sandboxed workers of a service of its own, one thread at a time: whole,
then the source alone, with one stage more each time, and each stage alone. Memory is judged
as a service does (docs/containment.md), by the later half of the samples.

Exit code: 0: nothing was found; 1: a stage leaks, becomes slow, crashes or fails, or memory
of the whole spec grows for a reason that is not clear; 2: the command line or the spec is
wrong, or the service could not run.

Examples:
  bulkhead doctor train.yaml --python-path code
  bulkhead doctor train.yaml --samples 20000 --html doctor.html
  bulkhead doctor train.yaml --input random --json
)";

struct DoctorArguments {
  ExaminationOptions options;
  std::string input = "captured";
  std::string html;
  bool json = false;
};

absl::StatusOr<int> RunDoctor(const DoctorArguments& arguments) {
  ExaminationOptions options = arguments.options;
  BULKHEAD_ASSIGN_OR_RETURN(options.input, InputChoice::Parse(arguments.input));
  ProgressLine line;
  BULKHEAD_ASSIGN_OR_RETURN(const Diagnosis diagnosis, Examine(options, line));
  const std::string text =
      arguments.json ? DiagnosisJson(diagnosis).Text() + "\n" : DiagnosisText(diagnosis);
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  if (arguments.html.empty()) return diagnosis.ExitCode();
  std::ofstream page(arguments.html);
  page << DoctorPage(diagnosis);
  page.close();
  if (!page) {
    const int why = errno;
    std::error_code ignored;  // half a page is of no use, but a device stays
    if (std::filesystem::is_regular_file(arguments.html, ignored)) {
      std::filesystem::remove(arguments.html, ignored);
    }
    return absl::UnavailableError(
        absl::StrCat(arguments.html, ": cannot be written: ", std::strerror(why)));
  }
  line.Finish(absl::StrCat(arguments.html, " has the curves"));
  return diagnosis.ExitCode();
}

}  // namespace

Command DoctorCommand() {
  const auto arguments = std::make_shared<DoctorArguments>();
  ExaminationOptions& options = arguments->options;
  Command command{
      .name = "doctor",
      .about = "Find the stage that leaks, becomes slow or crashes",
      .more = kDoctorExamples,
      .options = {{"SPEC", "The spec, YAML or JSON", SpecPath(options.spec), true},
                  {"--samples", "Samples of each run", Number(options.samples, 100)},
                  {"--input",
                   "What a stage gets that runs alone: captured (what the stages before it made), "
                   "zeros, random, or a .npy file with one sample or several",
                   Text(arguments->input, "captured|zeros|random|FILE")},
                  {"--worker-quota", "Memory limit of the worker; left out: that of bulkheadd",
                   Size(options.quota)},
                  {"--memory-budget",
                   "Memory that the service may use, such as 8GiB; left out: half of what is "
                   "available",
                   Size(options.budget)},
                  {"--html",
                   "File for a page with the tables, and the curves of memory and time; it needs "
                   "nothing else",
                   OutputPath(arguments->html, ".html")},
                  {"--json", "Print JSON", Flag(arguments->json)}},
      .run = [arguments] { return RunDoctor(*arguments); },
      .failed = kUsageError};
  Append(options.user_code.Options(), command.options);
  return command;
}

}  // namespace bulkhead::tools

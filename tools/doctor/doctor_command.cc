#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "tools/common/command_line.h"
#include "tools/common/commands.h"
#include "tools/common/progress_line.h"
#include "tools/common/user_code_options.h"
#include "tools/doctor/diagnosis.h"
#include "tools/doctor/doctor_page.h"
#include "tools/doctor/doctor_report.h"
#include "tools/doctor/examination.h"
#include "tools/doctor/stage_input.h"

namespace bulkhead::tools {
namespace {

constexpr char kDoctorExamples[] =
    "Runs the spec in the sandboxed workers of a service of its own, one thread at a time: whole,\n"
    "then the source alone, with one stage more each time, and each stage alone. Memory is judged\n"
    "as a service does (docs/containment.md), by the later half of the samples.\n"
    "\n"
    "Exit code: 0: nothing was found; 1: a stage leaks, becomes slow, crashes or fails, or memory\n"
    "of the whole spec grows for a reason that is not clear; 2: the command line or the spec is\n"
    "wrong, or the service could not run.\n"
    "\n"
    "Examples:\n"
    "  bulkhead doctor train.yaml --python-path code\n"
    "  bulkhead doctor train.yaml --samples 20000 --html doctor.html\n"
    "  bulkhead doctor train.yaml --input random --json\n";

struct DoctorArguments {
  std::string spec;
  uint64_t samples = 2000;
  std::string input = "captured";
  std::string quota;
  std::string budget;
  UserCodeOptions user_code;
  std::string html;
  bool json = false;

  std::vector<std::string> ServiceArguments() const {
    std::vector<std::string> flags = user_code.ServiceArguments();
    const auto add = [&](const char* flag, const std::string& value) {
      if (!value.empty()) flags.insert(flags.end(), {flag, value});
    };
    add("--worker-quota", quota);
    add("--memory-budget", budget);
    // A worker has to show what it does for as long as it can.
    add("--recycle-growth", "false");
    add("--recycle-slowdown", "0");
    flags.push_back("--allow-fault-stages");
    return flags;
  }
};

absl::StatusOr<int> RunDoctor(const DoctorArguments& arguments) {
  ExaminationOptions options;
  options.spec = arguments.spec;
  options.samples = arguments.samples;
  options.sandbox = arguments.user_code.sandbox;
  options.service_args = arguments.ServiceArguments();
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
  Command command{
      .name = "doctor",
      .about = "Find the stage that leaks, becomes slow or crashes",
      .more = kDoctorExamples,
      .options = {{"SPEC", "The spec, YAML or JSON", SpecPath(arguments->spec), true},
                  {"--samples", "Samples of each run", Number(arguments->samples, 100)},
                  {"--input",
                   "What a stage gets that runs alone: captured (what the stages before it made), "
                   "zeros, random, or a .npy file with one sample or several",
                   Text(arguments->input, "captured|zeros|random|FILE")},
                  {"--worker-quota", "Memory limit of the worker; left out: that of bulkheadd",
                   Size(arguments->quota)},
                  {"--memory-budget",
                   "Memory that the service may use, such as 8GiB; left out: half of what is "
                   "available",
                   Size(arguments->budget)},
                  {"--html",
                   "File for a page with the tables, and the curves of memory and time; it needs "
                   "nothing else",
                   OutputPath(arguments->html, ".html")},
                  {"--json", "Print JSON", Flag(arguments->json)}},
      .run = [arguments] { return RunDoctor(*arguments); },
      .failed = kUsageError};
  Append(arguments->user_code.Options(), command.options);
  return command;
}

}  // namespace bulkhead::tools

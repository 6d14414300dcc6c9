#include "tools/purity/purity_check.h"

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/internal/service/embedded_options.h"
#include "server/base/error.h"
#include "server/spec/signature.h"
#include "tools/common/service_options.h"
#include "tools/local/find_progress.h"
#include "tools/local/local_data.h"
#include "tools/local/local_pipeline.h"
#include "tools/local/own_run.h"
#include "tools/purity/purity_pass.h"
#include "tools/purity/purity_report.h"

namespace bulkhead::tools {
namespace {

constexpr char kReversed[] = "reversed";

// What the child process does.
absl::StatusOr<std::string> RunPass(const PurityRequest& request) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::PipelineSpec spec, ReadSpecFile(request.files[0]));
  // Unfused, so that every stage has a result of its own.
  BULKHEAD_ASSIGN_OR_RETURN(const auto local,
                            LocalPipeline::Create(spec, SpecFolder(request.files[0]),
                                                  {false, request.code, /*confine=*/true}));
  BULKHEAD_ASSIGN_OR_RETURN(const PurityTrace trace,
                            TracePass(*local, request.samples, request.run == kReversed));
  return TraceToText(trace);
}

// Runs one pass in a process of its own.
absl::StatusOr<PurityTrace> PassInChild(const PurityRequest& request, const std::string& file,
                                        const LocalData& data, bool reversed) {
  std::vector<std::string> args = {"validate",     file,
                                   "--purity",     absl::StrCat(request.samples),
                                   "--purity-run", reversed ? kReversed : "forward"};
  for (std::string& argument : request.code.ServiceArguments()) {
    args.push_back(std::move(argument));
  }
  BULKHEAD_ASSIGN_OR_RETURN(const std::string text, RunAgain(std::move(args), data));
  return TraceFromText(text);
}

absl::StatusOr<bool> CheckFile(const PurityRequest& request, const std::string& file) {
  if (file == "-") return absl::InvalidArgumentError("--purity reads files, not standard input");
  BULKHEAD_ASSIGN_OR_RETURN(const v1::PipelineSpec spec, ReadSpecFile(file));
  BULKHEAD_ASSIGN_OR_RETURN(const auto data,
                            LocalData::Create(spec, SpecFolder(file), ShowFinding()));
  BULKHEAD_ASSIGN_OR_RETURN(const PurityTrace one, PassInChild(request, file, *data, false));
  BULKHEAD_ASSIGN_OR_RETURN(const PurityTrace other, PassInChild(request, file, *data, true));
  const PurityReport report = ComparePasses(one, other, spec.batch().size());
  // Errors of samples advise as a service does; here there is none.
  const std::string text = InFlags(client_internal::InOptions(PurityText(file, report)));
  std::fputs(text.c_str(), request.json ? stderr : stdout);
  return report.is_pure();
}

}  // namespace

int CheckPurity(const PurityRequest& request) {
  if (!request.run.empty()) return AnswerRun(RunPass(request));
  std::fflush(stdout);
  int exit_code = 0;
  for (const std::string& file : request.files) {
    const absl::StatusOr<bool> pure = CheckFile(request, file);
    if (!pure.ok()) {
      std::fprintf(stderr, "bulkhead validate --purity: %s: %s\n", file.c_str(),
                   InFlags(std::string(pure.status().message())).c_str());
    }
    if (!pure.ok() || !*pure) exit_code = 1;
  }
  return exit_code;
}

}  // namespace bulkhead::tools

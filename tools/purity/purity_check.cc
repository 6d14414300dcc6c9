#include "tools/purity/purity_check.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/os/files/fd.h"
#include "server/os/files/filesystem.h"
#include "server/os/process/child_process.h"
#include "server/spec/signature.h"
#include "tools/common/user_code_options.h"
#include "tools/local/local_pipeline.h"
#include "tools/purity/purity_pass.h"
#include "tools/purity/purity_report.h"

namespace bulkhead::tools {
namespace {

constexpr char kReversed[] = "reversed";

// What the child process does.
absl::StatusOr<PurityTrace> RunPass(const PurityRequest& request) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::PipelineSpec spec, ReadSpecFile(request.files[0]));
  PipelineOptions options;
  options.fuse = false;  // so that every stage has a result of its own
  BULKHEAD_ASSIGN_OR_RETURN(const LocalUserCode code, LocalUserCode::Start(request.code, spec));
  options.user_code = code.user_code();
  BULKHEAD_ASSIGN_OR_RETURN(const auto local,
                            LocalPipeline::Create(spec, SpecFolder(request.files[0]), options));
  return TracePass(*local, request.samples, request.run == kReversed);
}

int ReportPass(const PurityRequest& request) {
  const absl::StatusOr<PurityTrace> trace = RunPass(request);
  if (!trace.ok()) {
    std::fprintf(stderr, "bulkhead validate --purity: %s\n",
                 std::string(trace.status().message()).c_str());
    return 1;
  }
  const std::string text = TraceToText(*trace);
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(ChildProcess::kPassedFd, text.data() + done, text.size() - done);
    if (written <= 0) return 1;
    done += static_cast<size_t>(written);
  }
  return 0;
}

// Runs one pass in a process of its own; absent when it failed, which it said itself.
absl::StatusOr<std::optional<PurityTrace>> PassInChild(const PurityRequest& request,
                                                       const std::string& file, bool reversed) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return absl::UnavailableError("no pipe can be made");
  const UniqueFd ours(pipe_fds[0]);
  UniqueFd theirs(pipe_fds[1]);
  SpawnSpec spec;
  BULKHEAD_ASSIGN_OR_RETURN(spec.program, ProgramPath());
  spec.args = {"validate",     file,
               "--purity",     absl::StrCat(request.samples),
               "--purity-run", reversed ? kReversed : "forward"};
  for (std::string& argument : request.code.ServiceArguments()) {
    spec.args.push_back(std::move(argument));
  }
  spec.passed_fd = theirs.get();
  BULKHEAD_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Spawn(spec));
  theirs = UniqueFd();
  std::string text;
  char buffer[1 << 16];
  for (ssize_t length; (length = read(ours.get(), buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(length));
  }
  pollfd ended = {child.pidfd(), POLLIN, 0};
  std::optional<ProcessExit> exit;
  while (!(exit = child.TryReap()).has_value()) poll(&ended, 1, -1);
  if (!exit->ok()) {
    if (exit->outcome == ProcessExit::Outcome::kSignaled) {
      return absl::AbortedError(
          absl::StrCat("a run was ended by signal ", exit->code, "; does a stage crash?"));
    }
    return std::optional<PurityTrace>();
  }
  BULKHEAD_ASSIGN_OR_RETURN(PurityTrace trace, TraceFromText(text));
  return std::optional<PurityTrace>(std::move(trace));
}

absl::StatusOr<bool> CheckFile(const PurityRequest& request, const std::string& file) {
  if (file == "-") return absl::InvalidArgumentError("--purity reads files, not standard input");
  BULKHEAD_ASSIGN_OR_RETURN(const v1::PipelineSpec spec, ReadSpecFile(file));
  BULKHEAD_ASSIGN_OR_RETURN(const auto one, PassInChild(request, file, false));
  if (!one.has_value()) return false;
  BULKHEAD_ASSIGN_OR_RETURN(const auto other, PassInChild(request, file, true));
  if (!other.has_value()) return false;
  const PurityReport report = ComparePasses(*one, *other, spec.batch().size());
  std::fputs(PurityText(file, report).c_str(), request.json ? stderr : stdout);
  return report.is_pure();
}

}  // namespace

int CheckPurity(const PurityRequest& request) {
  if (!request.run.empty()) return ReportPass(request);
  std::fflush(stdout);
  int exit_code = 0;
  for (const std::string& file : request.files) {
    const absl::StatusOr<bool> pure = CheckFile(request, file);
    if (!pure.ok()) {
      std::fprintf(stderr, "bulkhead validate --purity: %s: %s\n", file.c_str(),
                   std::string(pure.status().message()).c_str());
    }
    if (!pure.ok() || !*pure) exit_code = 1;
  }
  return exit_code;
}

}  // namespace bulkhead::tools

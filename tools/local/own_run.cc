#include "tools/local/own_run.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cpp/internal/service/embedded_options.h"
#include "server/arena/worker_error.h"
#include "server/base/error.h"
#include "server/os/files/fd.h"
#include "server/os/files/filesystem.h"
#include "server/os/process/child_process.h"
#include "server/os/process/worker_environment.h"
#include "tools/local/temporary_folder.h"

namespace bulkhead::tools {
namespace {

// What an answer begins with; the rest is the result, or an internal.v1.WorkerError.
constexpr char kResult = 'R';
constexpr char kError = 'E';

absl::Status NoAnswer(const ProcessExit& exit) {
  return absl::AbortedError(
      exit.outcome == ProcessExit::Outcome::kSignaled
          ? absl::StrCat("a run was ended by signal ", exit.code, "; does a stage crash?")
          : absl::StrCat("a run ended with exit code ", exit.code, "; does a stage end it?"));
}

}  // namespace

absl::StatusOr<std::string> RunAgain(std::vector<std::string> args) {
  BULKHEAD_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make("run"));
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return absl::UnavailableError("no pipe can be made");
  const UniqueFd ours(pipe_fds[0]);
  UniqueFd theirs(pipe_fds[1]);
  SpawnSpec spec;
  BULKHEAD_ASSIGN_OR_RETURN(spec.program, ProgramPath());
  spec.args = std::move(args);
  BULKHEAD_ASSIGN_OR_RETURN(std::vector<std::string> variables, AskedEnvironment({}));
  variables.push_back("TMPDIR=" + folder.path());
  spec.environment = WorkerEnvironment(variables);
  spec.inherits_environment = false;
  spec.passed_fd = theirs.get();
  BULKHEAD_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Spawn(spec));
  theirs = UniqueFd();
  std::string answer;
  char buffer[1 << 16];
  for (ssize_t length; (length = read(ours.get(), buffer, sizeof(buffer))) > 0;) {
    answer.append(buffer, static_cast<size_t>(length));
  }
  pollfd ended = {child.pidfd(), POLLIN, 0};
  std::optional<ProcessExit> exit;
  while (!(exit = child.TryReap()).has_value()) poll(&ended, 1, -1);
  if (!exit->ok() || answer.empty()) return NoAnswer(*exit);
  if (answer[0] == kResult) return answer.substr(1);
  internal::v1::WorkerError error;
  if (!error.ParseFromString(answer.substr(1))) return NoAnswer(*exit);
  *error.mutable_message() = client_internal::InOptions(error.message());
  return StatusFromWorkerError(error);
}

std::vector<std::string> OwnArguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> words = absl::StrSplit(line, '\0');
  words.pop_back();  // behind the last terminator
  words.erase(words.begin());
  return words;
}

int AnswerRun(const absl::StatusOr<std::string>& result) {
  const std::string answer = result.ok()
                                 ? absl::StrCat(std::string(1, kResult), *result)
                                 : absl::StrCat(std::string(1, kError),
                                                ToWorkerError(result.status()).SerializeAsString());
  for (size_t done = 0; done < answer.size();) {
    const ssize_t written =
        write(ChildProcess::kPassedFd, answer.data() + done, answer.size() - done);
    if (written <= 0) return 1;
    done += static_cast<size_t>(written);
  }
  return 0;
}

}  // namespace bulkhead::tools

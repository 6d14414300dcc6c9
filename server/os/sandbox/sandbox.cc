#include "server/os/sandbox/sandbox.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/os/files/fd.h"
#include "server/os/files/filesystem.h"
#include "server/os/sandbox/capabilities.h"
#include "server/os/sandbox/landlock.h"
#include "server/os/sandbox/seccomp_filter.h"

namespace bulkhead {
namespace {

constexpr uint64_t kLogBytes = uint64_t{16} << 20;

// What every program needs to run.
constexpr const char* kSystemPaths[] = {"/lib",
                                        "/lib64",
                                        "/usr/lib",
                                        "/usr/lib64",
                                        "/usr/local/lib",
                                        "/etc/ld.so.cache",
                                        "/proc/self",
                                        "/proc/cpuinfo",
                                        "/proc/meminfo",
                                        "/proc/sys/vm/overcommit_memory",
                                        "/sys/devices/system/cpu",
                                        "/dev/null",
                                        "/dev/urandom",
                                        "/etc/localtime",
                                        "/usr/share/zoneinfo",
                                        "/usr/share/locale"};

SandboxPart Report(std::string name, const absl::Status& status) {
  return {std::move(name), status.ok(), std::string(status.message())};
}

SandboxPart SwitchedOff(std::string name) {
  return {std::move(name), false, "it is switched off (--sandbox)"};
}

absl::Status CheckOneThread() {
  const size_t threads = NamesIn("/proc/self/task").size();
  if (threads == 1) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "it would not hold for all threads: the process had ", threads, " when it was to begin"));
}

std::vector<std::string> ReadablePaths(const SandboxOptions& options) {
  std::vector<std::string> paths(std::begin(kSystemPaths), std::end(kSystemPaths));
  if (const auto program = ProgramPath(); program.ok()) {
    paths.push_back(program->substr(0, program->rfind('/')));
  }
  if (const char* folders = std::getenv("LD_LIBRARY_PATH"); folders != nullptr) {
    for (const auto& folder : absl::StrSplit(folders, ':', absl::SkipEmpty())) {
      paths.emplace_back(folder);
    }
  }
  paths.insert(paths.end(), options.readable.begin(), options.readable.end());
  return paths;
}

absl::Status LimitFiles(uint64_t max_files) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return SystemError(errno, "reading the file limit");
  limit.rlim_max = std::min<rlim_t>(limit.rlim_max, max_files);
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return SystemError(errno, "setting the file limit");
  return absl::OkStatus();
}

// Limits all files except the log to `max_bytes`. A refused write must fail like one to a full
// disk, and not end the process.
absl::Status LimitFileSize(uint64_t max_bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0) return SystemError(errno, "reading the size limit");
  for (const int log : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat info {};
    if (fstat(log, &info) != 0 || !S_ISREG(info.st_mode)) continue;
    max_bytes = std::max(max_bytes, static_cast<uint64_t>(info.st_size) + kLogBytes);
  }
  limit.rlim_max = std::min<rlim_t>(limit.rlim_max, max_bytes);
  limit.rlim_cur = limit.rlim_max;
  signal(SIGXFSZ, SIG_IGN);
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return SystemError(errno, "setting the size limit");
  return absl::OkStatus();
}

// A worker's core dump would contain the user's data and be as large as its quota.
void ForbidCoreDumps() {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
}

}  // namespace

std::vector<SandboxPart> EnterSandbox(const SandboxOptions& options) {
  std::vector<SandboxPart> parts;
  const absl::Status no_new_privs = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                                        ? absl::OkStatus()
                                        : SystemError(errno, "no_new_privs");
  parts.push_back(Report("no_new_privs", no_new_privs));
  ForbidCoreDumps();
  absl::Status limited = LimitFiles(options.max_files);
  limited.Update(LimitFileSize(options.max_file_bytes));
  parts.push_back(Report("file-limit", limited));
  const absl::Status one_thread = CheckOneThread();
  // Before the capabilities go, because they may be needed to reach paths.
  if (options.landlock) {
    parts.push_back(Report(
        "landlock", one_thread.ok()
                        ? RestrictFiles(ReadablePaths(options), options.scratch, options.fetches)
                        : one_thread));
  } else {
    parts.push_back(SwitchedOff("landlock"));
  }
  const bool held_to_scratch = parts.back().active;
  if (options.capabilities) {
    parts.push_back(Report("capabilities", one_thread.ok() ? DropCapabilities() : one_thread));
  } else {
    parts.push_back(SwitchedOff("capabilities"));
  }
  const bool writes = !options.scratch.empty() && (held_to_scratch || !options.seccomp);
  if (!options.scratch.empty()) {
    parts.push_back(Report("scratch", writes ? absl::OkStatus()
                                             : absl::FailedPreconditionError(
                                                   "without Landlock nothing may be written")));
  }
  // Last, because it forbids what the others need.
  parts.push_back(options.seccomp ? Report("seccomp", RestrictSystemCalls(writes, options.fetches))
                                  : SwitchedOff("seccomp"));
  return parts;
}

}  // namespace bulkhead

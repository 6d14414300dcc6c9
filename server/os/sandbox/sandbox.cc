#include "server/os/sandbox/sandbox.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/os/files/fd.h"
#include "server/os/files/filesystem.h"
#include "server/os/process/process_usage.h"
#include "server/os/sandbox/landlock.h"
#include "server/os/sandbox/seccomp_filter.h"

namespace bulkhead {
namespace {

constexpr uint64_t kLogBytes = uint64_t{16} << 20;

// What every program needs to run.
constexpr const char* kSystemPaths[] = {
    // Libraries.
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache",
    // Devices, and what the kernel says of the process and the machine.
    "/dev/null", "/dev/urandom", "/proc/self", "/proc/cpuinfo", "/proc/meminfo",
    "/proc/sys/vm/overcommit_memory", "/sys/devices/system/cpu",
    // Time zones and locales.
    "/etc/localtime", "/usr/share/zoneinfo", "/usr/share/locale"};

// Enters a part, if it is wanted and `possible`.
absl::Status Enter(bool wanted, const absl::Status& possible,
                   absl::FunctionRef<absl::Status()> enter) {
  if (!wanted) return absl::FailedPreconditionError("it is switched off (--sandbox)");
  return possible.ok() ? enter() : possible;
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

// Limits all files except the log to `max_bytes`. A refused write must fail like one to a full
// disk, and not end the process.
absl::Status LimitFileSize(uint64_t max_bytes) {
  for (const int log : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat info {};
    if (fstat(log, &info) != 0 || !S_ISREG(info.st_mode)) continue;
    max_bytes = std::max(max_bytes, static_cast<uint64_t>(info.st_size) + kLogBytes);
  }
  signal(SIGXFSZ, SIG_IGN);
  return LowerLimit(RLIMIT_FSIZE, max_bytes, "reading the size limit", "setting the size limit");
}

// Drops every capability of this thread and of those that it starts: effective, permitted,
// inheritable and ambient, and the bounding set where allowed. The user stays the same, so root
// then has the rights of any file owner.
absl::Status DropCapabilities() {
  // Needs CAP_SETPCAP. Without it the bounding set may stay: it only allows gains by exec, which
  // no_new_privs forbids.
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) break;
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capset, &header, none) != 0) return SystemError(errno, "dropping capabilities");
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
  const auto report = [&parts](const char* name, const absl::Status& status) {
    parts.push_back({name, status.ok(), std::string(status.message())});
  };
  const bool forbidden = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  report("no_new_privs", forbidden ? absl::OkStatus() : SystemError(errno, "no_new_privs"));
  ForbidCoreDumps();
  absl::Status limited = LowerLimit(RLIMIT_NOFILE, options.max_files, "reading the file limit",
                                    "setting the file limit");
  limited.Update(LimitFileSize(options.max_file_bytes));
  report("file-limit", limited);

  const absl::Status one_thread = CheckOneThread();
  // Before the capabilities go, because they may be needed to reach paths.
  report("landlock", Enter(options.landlock, one_thread, [&] {
           return RestrictFiles(ReadablePaths(options), options.scratch, options.fetches);
         }));
  const bool held_to_scratch = parts.back().active;
  report("capabilities", Enter(options.capabilities, one_thread, DropCapabilities));
  const bool writes = !options.scratch.empty() && (held_to_scratch || !options.seccomp);
  if (!options.scratch.empty()) {
    report("scratch",
           writes ? absl::OkStatus()
                  : absl::FailedPreconditionError("without Landlock nothing may be written"));
  }
  // Last, because it forbids what the others need.
  report("seccomp", Enter(options.seccomp, absl::OkStatus(),
                          [&] { return RestrictSystemCalls(writes, options.fetches); }));
  return parts;
}

}  // namespace bulkhead

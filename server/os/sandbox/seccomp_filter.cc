#include "server/os/sandbox/seccomp_filter.h"

#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "server/os/files/fd.h"

namespace bulkhead {
namespace {

// Refused with any arguments. In the order of docs/sandbox.md.
constexpr const char* kRefused[] = {
    // Memory that RLIMIT_DATA does not count.
    "memfd_create", "memfd_secret", "shmget", "shmat", "shmctl", "msgget", "semget", "mq_open",
    "mq_unlink", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "io_setup",
    "io_submit", "vmsplice", "tee", "splice", "move_pages", "migrate_pages", "timer_create",
    "inotify_init", "inotify_init1",
    // Other programs and processes.
    "fork", "vfork", "execve", "execveat", "ptrace", "process_vm_readv", "process_vm_writev",
    "process_madvise", "process_mrelease", "kcmp", "pidfd_open", "pidfd_getfd", "pidfd_send_signal",
    "tkill",
    // Connections of others.
    "listen", "accept", "accept4",
    // Changes of files by name, and through descriptors changes of anything but the content.
    "creat", "openat2", "open_by_handle_at", "name_to_handle_at", "truncate", "link", "symlink",
    "symlinkat", "mknod", "mknodat", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown",
    "fchown", "fchownat", "utime", "utimes", "futimesat", "setxattr", "lsetxattr", "fsetxattr",
    "removexattr", "lremovexattr", "fremovexattr", "fanotify_init", "fanotify_mark",
    // The system, and large parts of the kernel that no worker needs.
    "mount", "umount", "umount2", "mount_setattr", "move_mount", "open_tree", "fsopen", "fsconfig",
    "fsmount", "fspick", "pivot_root", "chroot", "setns", "unshare", "bpf", "perf_event_open",
    "keyctl", "add_key", "request_key", "swapon", "swapoff", "reboot", "acct", "quotactl",
    "quotactl_fd", "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load",
    "iopl", "ioperm", "modify_ldt", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex",
    "sethostname", "setdomainname", "syslog", "vhangup", "personality", "lookup_dcookie",
    "nfsservctl", "uselib"};

// Also refused, unless the process has files of its own.
constexpr const char* kRefusedWithoutFiles[] = {"rename",   "renameat", "renameat2", "unlink",
                                                "unlinkat", "mkdir",    "mkdirat",   "rmdir"};

// Also refused, unless the process reads object stores.
constexpr const char* kRefusedUnlessFetching[] = {
    "socket",      "socketpair", "connect", "bind",      "ftruncate",
    "ftruncate64", "fallocate",  "linkat",  "utimensat",
};

// Newer than the libseccomp of the build; the numbers hold for all architectures: setxattrat,
// removexattrat, open_tree_attr, file_setattr.
constexpr int kRefusedNumbers[] = {463, 466, 467, 469};

// Compares 32 bits, as the kernel does for these arguments.
constexpr uint64_t kLow = 0xffffffff;

constexpr unsigned kIoctlTiocsti = 0x5412;    // types into the terminal
constexpr unsigned kIoctlTioclinux = 0x541C;  // pastes into the console
constexpr unsigned kIoctlFiosetown = 0x8901;
constexpr unsigned kIoctlSiocspgrp = 0x8902;

class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_ALLOW), &seccomp_release) {}

  void Refuse(int number, std::vector<scmp_arg_cmp> arguments = {}, int error = EPERM) {
    if (context_ == nullptr) return;
    const int result =
        seccomp_rule_add_array(context_.get(), SCMP_ACT_ERRNO(error), number,
                               static_cast<unsigned>(arguments.size()), arguments.data());
    // EEXIST: already covered. EDOM, EACCES: this architecture lacks the call.
    const bool harmless = result == -EEXIST || result == -EDOM || result == -EACCES;
    if (result < 0 && !harmless && error_ == 0) error_ = -result;
  }
  // Skips calls that this libseccomp or architecture lacks.
  void Refuse(const char* name, std::vector<scmp_arg_cmp> arguments = {}, int error = EPERM) {
    const int number = seccomp_syscall_resolve_name(name);
    if (number >= 0) Refuse(number, std::move(arguments), error);
  }

  absl::Status Load() {
    if (context_ == nullptr) return absl::ResourceExhaustedError("no memory for a filter");
    // For all threads; found by binary search; without the mitigation of speculative store bypass,
    // which slows all code and protects nothing here.
    const bool set =
        seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_TSYNC, 1) == 0 &&
        seccomp_attr_set(context_.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0;
    seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
    seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_SSB, 1);
    if (error_ == 0 && !set) error_ = EINVAL;
    if (error_ == 0) error_ = -seccomp_load(context_.get());
    if (error_ == 0) return absl::OkStatus();
    const absl::Status status = SystemError(error_, "loading a seccomp filter");
    return absl::UnavailableError(std::string(status.message()));
  }

 private:
  const std::unique_ptr<void, decltype(&seccomp_release)> context_;
  int error_ = 0;  // of the first failed rule
};

// Memory: mappings and pipes.
void RefuseMemory(Filter& filter) {
  constexpr uint64_t kShared = MAP_SHARED | MAP_ANONYMOUS;
  constexpr uint64_t kTypeAndAnonymous = 0xf | MAP_ANONYMOUS;  // MAP_TYPE
  for (const char* name : {"mmap", "mmap2"}) {
    filter.Refuse(name, {SCMP_A3(SCMP_CMP_MASKED_EQ, kTypeAndAnonymous, kShared)});
    // Counts as stack, which RLIMIT_DATA does not limit.
    filter.Refuse(name, {SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_GROWSDOWN, MAP_GROWSDOWN)});
  }
  filter.Refuse("fcntl", {SCMP_A1(SCMP_CMP_MASKED_EQ, kLow, F_SETPIPE_SZ)});
}

// Limits may be read, and only its own RLIMIT_DATA set.
void RefuseLimits(Filter& filter) {
  filter.Refuse("prlimit64",
                {SCMP_A2(SCMP_CMP_NE, 0), SCMP_A1(SCMP_CMP_NE, uint64_t{RLIMIT_DATA})});
  filter.Refuse("prlimit64", {SCMP_A2(SCMP_CMP_NE, 0), SCMP_A0(SCMP_CMP_NE, 0)});
  filter.Refuse("setrlimit", {SCMP_A0(SCMP_CMP_NE, uint64_t{RLIMIT_DATA})});
}

// It may start threads but no processes, and signal only itself.
void RefuseProcesses(Filter& filter) {
  filter.Refuse("clone", {SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)});
  filter.Refuse("clone3", {}, ENOSYS);
  const uint64_t self = static_cast<uint64_t>(getpid());
  for (const char* name : {"kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"}) {
    filter.Refuse(name, {SCMP_A0(SCMP_CMP_NE, self)});
  }
  // A descriptor could be made to signal any process of the same user; and a lease on a file keeps
  // others from opening it.
  for (const uint64_t command : {F_SETOWN, F_SETOWN_EX, F_SETSIG, F_SETLEASE, F_NOTIFY}) {
    filter.Refuse("fcntl", {SCMP_A1(SCMP_CMP_MASKED_EQ, kLow, command)});
  }
  for (const uint64_t request :
       {kIoctlTiocsti, kIoctlTioclinux, kIoctlFiosetown, kIoctlSiocspgrp}) {
    filter.Refuse("ioctl", {SCMP_A1(SCMP_CMP_MASKED_EQ, kLow, request)});
  }
  // It may not take the CPU from the user's other processes.
  for (const char* name :
       {"sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"}) {
    filter.Refuse(name, {SCMP_A0(SCMP_CMP_NE, 0)});
  }
  filter.Refuse("setpriority", {SCMP_A0(SCMP_CMP_NE, 0)});  // PRIO_PROCESS
  filter.Refuse("setpriority", {SCMP_A1(SCMP_CMP_NE, 0)});
  filter.Refuse("ioprio_set", {SCMP_A0(SCMP_CMP_NE, 1)});  // IOPRIO_WHO_PROCESS
  filter.Refuse("ioprio_set", {SCMP_A1(SCMP_CMP_NE, 0)});
  // It must not outlive its supervisor.
  filter.Refuse("prctl", {SCMP_A0(SCMP_CMP_MASKED_EQ, kLow, PR_SET_PDEATHSIG)});
}

// Opening for writing, on any file system: files on a tmpfs are memory.
void RefuseWriting(Filter& filter) {
  const std::pair<const char*, unsigned> opens[] = {{"open", 1}, {"openat", 2}};
  for (const auto& [name, flags] : opens) {
    for (const uint64_t flag : {O_WRONLY, O_RDWR, O_CREAT, O_TRUNC}) {
      filter.Refuse(name, {SCMP_CMP64(flags, SCMP_CMP_MASKED_EQ, flag, flag)});
    }
  }
}

// The oldest Landlock does not count truncation by a read-only open as writing.
void RefuseEmptying(Filter& filter) {
  const std::pair<const char*, unsigned> opens[] = {{"open", 1}, {"openat", 2}};
  for (const auto& [name, flags] : opens) {
    filter.Refuse(name,
                  {SCMP_CMP64(flags, SCMP_CMP_MASKED_EQ, O_ACCMODE | O_TRUNC, O_RDONLY | O_TRUNC)});
  }
}

}  // namespace

absl::Status RestrictSystemCalls(bool own_files, bool fetches) {
  Filter filter;
  for (const char* name : kRefused) filter.Refuse(name);
  for (const int number : kRefusedNumbers) filter.Refuse(number);
  if (!fetches) {
    for (const char* name : kRefusedUnlessFetching) filter.Refuse(name);
  }
  RefuseMemory(filter);
  RefuseLimits(filter);
  RefuseProcesses(filter);
  if (own_files) {
    RefuseEmptying(filter);
  } else {
    for (const char* name : kRefusedWithoutFiles) filter.Refuse(name);
    RefuseWriting(filter);
  }
  return filter.Load();
}

}  // namespace bulkhead

// Enters the sandbox of a worker, or parts of it, and tries one thing; for tests.
//
//   escape_artist PARTS ROOT ATTEMPT      PARTS: all, none, or some of
//   seccomp,landlock,capabilities; with `scratch` among them it may write to a folder of its own
//
// ROOT is the only folder of data that may be read; beside it lie the folders `outside` and
// `scratch`. Descriptor 3
// is one end of a packet socket. The exit code is an Outcome.

#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/os/files/filesystem.h"
#include "server/os/process/process_usage.h"
#include "server/os/sandbox/sandbox.h"
#include "server/os/sockets/packet_socket.h"
#include "tests/containment/outcome.h"

namespace bulkhead {
namespace {

// Each returns whether it succeeded, and leaves errno otherwise.
using Attempt = std::function<bool()>;
using Attempts = std::map<std::string, Attempt>;

constexpr size_t kMebibyte = size_t{1} << 20;

bool Mapped(int flags, int fd = -1) {
  return mmap(nullptr, kMebibyte, PROT_READ | PROT_WRITE, flags, fd, 0) != MAP_FAILED;
}

// A copy of this process that ends at once, and is waited for.
bool Copied(long pid) {
  if (pid == 0) _exit(0);
  return pid > 0 && waitpid(static_cast<pid_t>(pid), nullptr, 0) == pid;
}

bool ReadsFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char byte;
  return fd >= 0 && read(fd, &byte, 1) == 1;
}

bool WritesFile(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC, 0600);
  return fd >= 0 && write(fd, "x", 1) == 1;
}

bool RaisesLimit(int resource, rlim_t by) {
  rlimit limit{};
  getrlimit(static_cast<__rlimit_resource>(resource), &limit);
  limit.rlim_cur = limit.rlim_max = limit.rlim_cur + by;
  return setrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0;
}

bool ConnectsTo(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  // Nobody listens there: to be told so means that the way was free.
  return fd >= 0 && (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 ||
                     errno == ECONNREFUSED || errno == ENOENT);
}

Attempts MemoryAttempts() {
  return {
      {"memfd", [] { return memfd_create("escape", 0) >= 0; }},
      {"memfd-secret", [] { return syscall(447, 0) >= 0; }},
      {"shm-open", [] { return shm_open("/bulkhead-escape", O_RDWR | O_CREAT, 0600) >= 0; }},
      {"shmget", [] { return shmget(IPC_PRIVATE, kMebibyte, IPC_CREAT | 0600) >= 0; }},
      {"shared-anonymous", [] { return Mapped(MAP_SHARED | MAP_ANONYMOUS); }},
      {"grows-down", [] { return Mapped(MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN); }},
      {"shared-dev-zero",
       [] {
         const int fd = open("/dev/zero", O_RDWR);
         return fd >= 0 && Mapped(MAP_SHARED, fd);
       }},
      {"big-pipe",
       [] {
         int ends[2];
         return pipe(ends) == 0 && fcntl(ends[0], F_SETPIPE_SZ, kMebibyte) >= 0;
       }},
      // Pages that a pipe holds are in no resident set.
      {"pages-into-a-pipe",
       [] {
         int ends[2];
         char page[4096] = {};
         iovec from{page, sizeof(page)};
         return pipe(ends) == 0 && vmsplice(ends[1], &from, 1, 0) > 0;
       }},
      // The kernel takes the command as 32 bits, so a filter has to as well.
      {"big-pipe-high-bits",
       [] {
         int ends[2];
         if (pipe(ends) != 0) return false;
         const long command = (1L << 32) | F_SETPIPE_SZ;
         return syscall(SYS_fcntl, ends[0], command, kMebibyte) >= 0;
       }},
      {"userfaultfd", [] { return syscall(SYS_userfaultfd, O_CLOEXEC | 1) >= 0; }},
      {"io-uring",
       [] {
         char parameters[120] = {};
         return syscall(SYS_io_uring_setup, 8, parameters) >= 0;
       }},
      {"posix-timer",
       [] {
         timer_t timer;
         return timer_create(CLOCK_MONOTONIC, nullptr, &timer) == 0;
       }},
      {"inotify", [] { return inotify_init1(IN_CLOEXEC) >= 0; }},
      {"inotify-old", [] { return inotify_init() >= 0; }},
      {"raise-data-limit",
       [] {
         const rlimit more{512 * kMebibyte, 512 * kMebibyte};
         return LimitDataMemory(256 * kMebibyte).ok() && setrlimit(RLIMIT_DATA, &more) == 0;
       }},
      {"raise-stack-limit", [] { return RaisesLimit(RLIMIT_STACK, kMebibyte); }},
      {"raise-file-limit", [] { return RaisesLimit(RLIMIT_NOFILE, 1); }},
  };
}

Attempts ProcessAttempts() {
  return {
      {"fork", [] { return Copied(fork()); }},
      {"fork-call", [] { return Copied(syscall(SYS_fork)); }},
      {"vfork",
       [] {
         const pid_t pid = vfork();
         if (pid == 0) _exit(0);
         return pid > 0;
       }},
      {"clone3",
       [] {
         struct {
           uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
         } arguments{};
         arguments.exit_signal = SIGCHLD;
         return Copied(syscall(SYS_clone3, &arguments, sizeof(arguments)));
       }},
      {"exec",
       [] {
         // Without an argument list the shell would say so; with exec denied, we are still here.
         char* const arguments[] = {const_cast<char*>("sh"), const_cast<char*>("-c"),
                                    const_cast<char*>("exit 10"), nullptr};
         execv("/bin/sh", arguments);
         return false;
       }},
      {"ptrace-parent", [] { return ptrace(PTRACE_SEIZE, getppid(), nullptr, nullptr) == 0; }},
      {"read-parent-memory",
       [] {
         static int here = 0;
         char byte;
         iovec to{&byte, 1};
         iovec from{&here, 1};
         // The parent may have nothing at that address.
         return process_vm_readv(getppid(), &to, 1, &from, 1, 0) == 1 || errno == EFAULT;
       }},
      {"pin-parent",
       [] {
         cpu_set_t set;
         return sched_getaffinity(getppid(), sizeof(set), &set) == 0 &&
                sched_setaffinity(getppid(), sizeof(set), &set) == 0;
       }},
      {"slow-parent",
       [] {
         const sched_param none{};
         return sched_setscheduler(getppid(), SCHED_OTHER, &none) == 0;
       }},
      {"slow-user", [] { return setpriority(PRIO_USER, 0, 0) == 0; }},
      {"signal-parent", [] { return kill(getppid(), SIGCONT) == 0; }},
      {"signal-parents-thread",
       [] { return syscall(SYS_tgkill, getppid(), getppid(), SIGCONT) == 0; }},
      {"signal-through-descriptor",
       [] {
         int ends[2];
         return pipe(ends) == 0 && fcntl(ends[0], F_SETOWN, getppid()) == 0;
       }},
      {"lease-file",
       [] { return fcntl(open("/proc/self/exe", O_RDONLY), F_SETLEASE, F_RDLCK) == 0; }},
      {"watch-folder",
       [] { return fcntl(open("/proc/self", O_RDONLY), F_NOTIFY, DN_CREATE) == 0; }},
      {"limit-parent",
       [] {
         rlimit limit{};
         return prlimit(getppid(), RLIMIT_CORE, nullptr, &limit) == 0 &&
                prlimit(getppid(), RLIMIT_CORE, &limit, nullptr) == 0;
       }},
      {"outlive-supervisor", [] { return prctl(PR_SET_PDEATHSIG, 0) == 0; }},
      {"new-namespace", [] { return unshare(CLONE_NEWUSER) == 0; }},
      {"chroot", [] { return chroot("/") == 0; }},
      {"mount", [] { return mount("none", "/proc", "proc", MS_REMOUNT, nullptr) == 0; }},
  };
}

Attempts SocketAttempts() {
  return {
      {"tcp-socket", [] { return socket(AF_INET, SOCK_STREAM, 0) >= 0; }},
      {"udp-socket", [] { return socket(AF_INET, SOCK_DGRAM, 0) >= 0; }},
      {"netlink-socket", [] { return socket(AF_NETLINK, SOCK_RAW, 0) >= 0; }},
      {"unix-connect", [] { return ConnectsTo("/run/escape"); }},
      {"socketpair",
       [] {
         int ends[2];
         return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0;
       }},
      {"terminal-input",
       [] {
         // That standard error is no terminal is only found out if the call goes through.
         char typed = '\n';
         return ioctl(2, TIOCSTI, &typed) == 0 || errno == ENOTTY || errno == EIO;
       }},
  };
}

Attempts FileAttempts(const std::string& root) {
  const std::string inside = root + "/data";
  const std::string outside = root + "/../outside";
  return {
      {"read-outside", [=] { return ReadsFile(outside + "/secret"); }},
      {"read-through-dots", [=] { return ReadsFile(root + "/../outside/secret"); }},
      {"read-through-link", [=] { return ReadsFile(root + "/link-out"); }},
      {"list-outside", [=] { return open(outside.c_str(), O_RDONLY | O_DIRECTORY) >= 0; }},
      {"read-parent-environment",
       [] { return ReadsFile(absl::StrCat("/proc/", getppid(), "/environ")); }},
      {"write-outside", [=] { return WritesFile(outside + "/new", O_WRONLY | O_CREAT); }},
      {"write-inside", [=] { return WritesFile(inside, O_WRONLY); }},
      {"append-inside", [=] { return WritesFile(inside, O_RDWR | O_APPEND); }},
      {"create-inside", [=] { return WritesFile(root + "/new", O_WRONLY | O_CREAT); }},
      {"unnamed-inside", [=] { return WritesFile(root, O_RDWR | O_TMPFILE); }},
      {"truncate-by-opening", [=] { return open(inside.c_str(), O_RDONLY | O_TRUNC) >= 0; }},
      {"truncate", [=] { return truncate(inside.c_str(), 0) == 0; }},
      {"unlink", [=] { return unlink(inside.c_str()) == 0; }},
      {"rename", [=] { return rename(inside.c_str(), (root + "/other").c_str()) == 0; }},
      {"link", [=] { return link(inside.c_str(), (root + "/other").c_str()) == 0; }},
      {"symlink", [=] { return symlink("/", (root + "/other").c_str()) == 0; }},
      {"make-folder", [=] { return mkdir((root + "/folder").c_str(), 0700) == 0; }},
      {"make-fifo", [=] { return mkfifo((root + "/fifo").c_str(), 0600) == 0; }},
      {"change-mode", [=] { return chmod(inside.c_str(), 0777) == 0; }},
      {"change-owner", [=] { return chown(inside.c_str(), getuid(), getgid()) == 0; }},
      {"change-times", [=] { return utimensat(AT_FDCWD, inside.c_str(), nullptr, 0) == 0; }},
  };
}

// Whether `fields` of /proc/self/status are all zero.
bool HasCapability() {
  char text[8192] = {};
  const int fd = open("/proc/self/status", O_RDONLY);
  if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0) return true;
  for (const char* set : {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"}) {
    const char* line = std::strstr(text, set);
    if (line == nullptr || std::strtoull(line + std::strlen(set), nullptr, 16) != 0) return true;
  }
  errno = EPERM;
  return false;
}

bool SendsLongMessage(PacketSocket& socket) {
  std::string message(3 * PacketSocket::kInlineBytes + 7, 'x');
  message.back() = 'y';
  return socket.Send(message).ok();
}

bool RenamesTo(const std::string& from, const std::string& to) {
  return WritesFile(from, O_WRONLY | O_CREAT) && rename(from.c_str(), to.c_str()) == 0;
}

// In its own folder.
Attempts ScratchAttempts(const std::string& root) {
  const std::string scratch = root + "/../scratch";
  return {
      {"write-scratch", [=] { return WritesFile(scratch + "/new", O_RDWR | O_CREAT | O_TRUNC); }},
      {"unnamed-scratch", [=] { return WritesFile(scratch, O_RDWR | O_TMPFILE); }},
      {"rename-scratch", [=] { return RenamesTo(scratch + "/a", scratch + "/b"); }},
      {"folders-scratch",
       [=] {
         const std::string folder = scratch + "/folder";
         return mkdir(folder.c_str(), 0700) == 0 && RenamesTo(scratch + "/a", folder + "/b") &&
                unlink((folder + "/b").c_str()) == 0 && rmdir(folder.c_str()) == 0;
       }},
      {"write-null", [] { return WritesFile("/dev/null", O_WRONLY); }},
      {"rename-out", [=] { return RenamesTo(scratch + "/a", root + "/b"); }},
      {"rename-in",
       [=] { return rename((root + "/data").c_str(), (scratch + "/data").c_str()) == 0; }},
      {"link-in", [=] { return link((root + "/data").c_str(), (scratch + "/d").c_str()) == 0; }},
      {"large-scratch",
       [=] {
         const int fd = open((scratch + "/large").c_str(), O_WRONLY | O_CREAT, 0600);
         errno = 0;
         const bool wrote = pwrite(fd, "x", 1, 2 * kMebibyte) == 1;
         if (errno == EFBIG) errno = EPERM;
         return wrote;
       }},
  };
}

// What a worker needs: it must succeed in the sandbox as well.
Attempts Needs(const std::string& root, int unnamed_file, int arena, PacketSocket& socket) {
  return {
      {"thread",
       [] {
         bool ran = false;
         std::thread([&] { ran = true; }).join();
         return ran;
       }},
      {"memory", [] { return std::vector<char>(64 * kMebibyte, 'x').back() == 'x'; }},
      {"read-inside", [=] { return ReadsFile(root + "/data"); }},
      {"read-link-inside", [=] { return ReadsFile(root + "/link-in"); }},
      {"list-inside", [=] { return NamesIn(root).size() > 1; }},
      {"map-arena", [=] { return Mapped(MAP_SHARED, arena); }},
      {"write-handed-file", [=] { return write(unnamed_file, "x", 1) == 1; }},
      {"load-library", [] { return dlopen("libz.so.1", RTLD_NOW) != nullptr; }},
      {"own-status", [] { return ReadProcessUsageFast(getpid()).ok(); }},
      {"random", [] { return ReadsFile("/dev/urandom"); }},
      {"long-message", [&socket] { return SendsLongMessage(socket); }},
      {"lower-data-limit", [] { return LimitDataMemory(256 * kMebibyte).ok(); }},
      {"abort",
       [] {
         std::signal(SIGABRT, [](int) { _exit(kSucceeded); });
         std::abort();
         return false;
       }},
  };
}

bool Wanted(const std::string& parts, const char* part) {
  return parts == "all" || absl::StrContains(parts, part);
}

// False when a part that was wanted is not in force.
bool Enter(const std::string& parts, const std::string& root) {
  SandboxOptions options;
  options.seccomp = Wanted(parts, "seccomp");
  options.landlock = Wanted(parts, "landlock");
  options.capabilities = Wanted(parts, "capabilities");
  options.readable = {root};
  if (absl::StrContains(parts, "scratch")) options.scratch = root + "/../scratch";
  options.max_file_bytes = kMebibyte;  // as for a worker that builds indexes
  bool in_force = true;
  for (const SandboxPart& part : EnterSandbox(options)) {
    const bool always = part.name == "no_new_privs" || part.name == "file-limit";
    if (part.active == (always || Wanted(parts, part.name.c_str()))) continue;
    std::fprintf(stderr, "%s: %s\n", part.name.c_str(), part.reason.c_str());
    in_force = false;
  }
  return in_force;
}

int Run(const std::string& parts, const std::string& root, const std::string& name) {
  // What a worker is handed: made before it is in its sandbox.
  const int unnamed_file = open(root.c_str(), O_RDWR | O_TMPFILE, 0600);
  const int arena = memfd_create("arena", 0);
  if (ftruncate(arena, kMebibyte) != 0) return kOtherError;
  PacketSocket socket{UniqueFd(3)};
  Attempts attempts = MemoryAttempts();
  attempts.merge(ProcessAttempts());
  attempts.merge(SocketAttempts());
  attempts.merge(FileAttempts(root));
  attempts.merge(ScratchAttempts(root));
  attempts.merge(Needs(root, unnamed_file, arena, socket));
  attempts["capability"] = HasCapability;
  // Others map what it was handed.
  attempts["shorten-handed-file"] = [=] { return ftruncate(arena, 0) == 0; };
  attempts["punch-handed-file"] = [=] {
    return fallocate(arena, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kMebibyte) == 0;
  };
  const auto attempt = attempts.find(name);
  if (attempt == attempts.end()) return kBadCommand;
  if (parts != "none" && !Enter(parts, root)) return kPartMissing;
  errno = 0;
  if (attempt->second()) return kSucceeded;
  if (errno == EPERM || errno == EACCES) return kDenied;
  if (errno == ENOSYS) return kNoSuchCall;
  std::fprintf(stderr, "%s: %s\n", name.c_str(), std::strerror(errno));
  return kOtherError;
}

}  // namespace
}  // namespace bulkhead

int main(int argc, char** argv) {
  if (argc != 4) return bulkhead::kBadCommand;
  _exit(bulkhead::Run(argv[1], argv[2], argv[3]));
}

#include "client/cpp/internal/service/embedded.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cpp/internal/base/error.h"
#include "client/cpp/internal/base/steady.h"
#include "client/cpp/internal/base/thread.h"
#include "client/cpp/internal/rpc/channel.h"
#include "client/cpp/internal/service/embedded_options.h"
#include "client/cpp/internal/service/service_log.h"
#include "client/cpp/internal/service/stale_folders.h"

extern char** environ;

namespace bulkhead::client_internal {
namespace {

constexpr size_t kLastWordsBytes = 8192;
constexpr absl::Duration kTermGrace = absl::Seconds(10);
constexpr absl::Duration kCancelPoll = absl::Milliseconds(50);
constexpr int kReadyFd = 3;  // in the service

// The program and its flags.
using Key = std::pair<std::string, std::vector<std::string>>;

// One kind of service, of which this process has at most one.
struct Entry {
  absl::Mutex mutex;
  Signal started;
  // One caller starts it; others that want the same service wait for that.
  bool starting ABSL_GUARDED_BY(mutex) = false;
  std::weak_ptr<EmbeddedService> service ABSL_GUARDED_BY(mutex);
};

// The process's embedded services: loaders that know nothing of each other share them.
struct Registry {
  absl::Mutex mutex;
  std::map<Key, std::unique_ptr<Entry>> entries ABSL_GUARDED_BY(mutex);
};

// Never destroyed: loaders may be static objects.
Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

Entry& EntryOf(const Key& key) {
  Registry& registry = TheRegistry();
  absl::MutexLock lock(&registry.mutex);
  std::unique_ptr<Entry>& entry = registry.entries[key];
  if (entry == nullptr) entry = std::make_unique<Entry>();
  return *entry;
}

// Where another thread, or one that a fork left behind, has a lock, the service is left alone: it
// sees the end of its client itself.
void StopAllAtExit() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  std::vector<std::shared_ptr<EmbeddedService>> running;
  Registry& registry = TheRegistry();
  if (!registry.mutex.TryLock()) return;
  for (auto& [key, entry] : registry.entries) {
    if (!entry->mutex.TryLock()) continue;
    if (auto service = entry->service.lock()) running.push_back(std::move(service));
    entry->mutex.Unlock();
  }
  registry.mutex.Unlock();
  for (const auto& service : running) service->Stop();
}

bool IsProgram(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

std::string OwnFolder() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length <= 0) return "";
  const std::string self(path, static_cast<size_t>(length));
  return self.substr(0, self.rfind('/'));
}

// A pipe whose ends are not among the descriptors that the child's own are put onto.
bool MakePipe(int ends[2]) {
  int low[2];
  if (pipe2(low, O_CLOEXEC) != 0) return false;
  ends[0] = fcntl(low[0], F_DUPFD_CLOEXEC, kReadyFd + 1);
  ends[1] = fcntl(low[1], F_DUPFD_CLOEXEC, kReadyFd + 1);
  close(low[0]);
  close(low[1]);
  if (ends[0] >= 0 && ends[1] >= 0) return true;
  if (ends[0] >= 0) close(ends[0]);
  if (ends[1] >= 0) close(ends[1]);
  return false;
}

absl::Status SystemError(absl::string_view what) {
  return MakeClientError(absl::StatusCode::kUnavailable, client_reason::kServiceStartFailed,
                         absl::StrCat("cannot start a service: ", what, ": ", strerror(errno)));
}

absl::Status NotReady(absl::Duration deadline) {
  return MakeClientError(
      absl::StatusCode::kDeadlineExceeded, client_reason::kDeadlineExceeded,
      absl::StrCat("the embedded service was not ready within ", absl::FormatDuration(deadline)));
}

void SendSignal(int pidfd, int signal) {
  syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0);
}

void CloseFd(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

}  // namespace

absl::StatusOr<std::string> FindServiceProgram(const EmbeddedOptions& options) {
  std::string asked = options.program;
  absl::string_view origin = "EmbeddedOptions::program";
  if (asked.empty()) {
    const char* variable = getenv("BULKHEAD_SERVER");
    if (variable != nullptr && *variable != '\0') asked = variable;
    origin = "BULKHEAD_SERVER";
  }
  if (!asked.empty()) {
    if (IsProgram(asked)) return asked;
    return MakeClientError(absl::StatusCode::kNotFound, client_reason::kServiceNotFound,
                           absl::StrCat(origin, " names '", asked, "', which is not a program"),
                           {{"program", asked}});
  }
  std::vector<std::string> folders;
  if (const char* path = getenv("PATH")) {
    for (absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) {
      folders.emplace_back(folder);
    }
  }
  if (const std::string own = OwnFolder(); !own.empty()) {
    folders.push_back(own);
    folders.push_back(absl::StrCat(own, "/../bin"));
  }
  for (const std::string& folder : folders) {
    std::string candidate = absl::StrCat(folder, "/bulkheadd");
    if (IsProgram(candidate)) return candidate;
  }
  return MakeClientError(
      absl::StatusCode::kNotFound, client_reason::kServiceNotFound,
      "no target was given and the program bulkheadd was found neither through $BULKHEAD_SERVER "
      "nor on the PATH; install Bulkhead's server (bulkheadd, bulkhead-worker "
      "and bulkhead-fetch), set BULKHEAD_SERVER to bulkheadd, or give the target of a running "
      "service");
}

absl::StatusOr<std::shared_ptr<EmbeddedService>> EmbeddedService::Acquire(
    const EmbeddedOptions& options, absl::Duration deadline,
    const std::function<bool()>& cancelled) {
  BULKHEAD_RETURN_IF_ERROR(CheckNotForked());
  BULKHEAD_ASSIGN_OR_RETURN(auto program, FindServiceProgram(options));
  static const int registered = std::atexit(StopAllAtExit);
  (void)registered;
  Entry& entry = EntryOf(Key(program, FlagsOf(options)));
  const Deadline until(deadline);
  {
    absl::MutexLock lock(&entry.mutex);
    while (entry.starting) {
      if (until.passed()) return NotReady(deadline);
      if (cancelled()) return ClosedError();
      entry.started.Wait(&entry.mutex, std::min(kCancelPoll, until.left()));
    }
    if (auto service = entry.service.lock(); service != nullptr && service->Alive()) return service;
    entry.starting = true;
  }
  auto service = Spawn(program, options, until.left(), cancelled);
  absl::MutexLock lock(&entry.mutex);
  entry.starting = false;
  if (service.ok()) entry.service = *service;
  entry.started.Notify();
  return service;
}

absl::StatusOr<std::shared_ptr<EmbeddedService>> EmbeddedService::Spawn(
    const std::string& program, const EmbeddedOptions& options, absl::Duration deadline,
    const std::function<bool()>& cancelled) {
  std::shared_ptr<EmbeddedService> service(new EmbeddedService);
  service->owner_ = getpid();
  BULKHEAD_RETURN_IF_ERROR(service->MakeFolder());
  int ready_fd = -1;
  BULKHEAD_RETURN_IF_ERROR(service->Launch(program, options, &ready_fd));
  absl::Status ready = StartThread(
      "to read what an embedded service says", [raw = service.get()] { raw->KeepLastWords(); },
      &service->stderr_thread_);
  if (ready.ok()) ready = service->AwaitReady(ready_fd, deadline, cancelled);
  close(ready_fd);
  if (!ready.ok()) return ForProgram(ready, service->log_);
  return service;
}

absl::Status EmbeddedService::MakeFolder() {
  std::vector<std::string> parents;
  const char* runtime = getenv("XDG_RUNTIME_DIR");
  const std::string name = absl::StrCat("/", kServiceFolderPrefix, "XXXXXX");
  // A socket's address holds 107 bytes: the paths of socket and door must fit behind the parent.
  const size_t longest = name.size() + 1 + strlen(kServiceSocket) + strlen(kDoorSuffix);
  if (runtime != nullptr && *runtime == '/' &&
      strlen(runtime) + longest < sizeof(sockaddr_un::sun_path)) {
    parents.push_back(runtime);
  }
  parents.push_back("/tmp");
  for (const std::string& parent : parents) RemoveStaleFolders(parent);
  for (const std::string& parent : parents) {
    std::string folder = absl::StrCat(parent, name);
    if (mkdtemp(folder.data()) == nullptr) continue;  // made with mode 0700
    folder_ = folder;
    target_ = absl::StrCat("unix:", folder_, "/", kServiceSocket);
    return absl::OkStatus();
  }
  return SystemError("no folder for its socket can be made in /tmp");
}

absl::Status EmbeddedService::Launch(const std::string& program, const EmbeddedOptions& options,
                                     int* ready_fd) {
  int ready[2];
  int errors[2];
  if (!MakePipe(ready)) return SystemError("pipe");
  if (!MakePipe(errors)) {
    const absl::Status error = SystemError("pipe");
    close(ready[0]);
    close(ready[1]);
    return error;
  }
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  stderr_fd_ = errors[0];
  fcntl(stderr_fd_, F_SETFL, O_NONBLOCK);

  std::vector<std::string> arguments = {
      program,    "--embedded", "--watch-pid", absl::StrCat(getpid()),
      "--listen", target_,      "--ready-fd",  absl::StrCat(kReadyFd)};
  // The six characters that mkdtemp chose.
  log_ = NewServiceLog(folder_.substr(folder_.size() - 6), options.cache_dir);
  if (!log_.empty()) arguments.insert(arguments.end(), {"--log-file", log_});
  const std::vector<std::string> flags = FlagsOf(options);
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, errors[1], 2);
  posix_spawn_file_actions_adddup2(&actions, ready[1], kReadyFd);
  posix_spawn_file_actions_addclosefrom_np(&actions, kReadyFd + 1);
  // Ctrl-C at the trainer must not end the service before the trainer has.
  sigset_t none;
  sigset_t standard;
  sigemptyset(&none);
  sigfillset(&standard);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &standard);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const int error =
      posix_spawn(&pid_, program.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(ready[1]);
  close(errors[1]);
  if (error != 0) {
    pid_ = -1;
    close(ready[0]);
    errno = error;
    return SystemError(program);
  }
  pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (pidfd_ < 0) {
    const absl::Status failed = SystemError("pidfd_open");
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
    close(ready[0]);
    return failed;
  }
  *ready_fd = ready[0];
  return absl::OkStatus();
}

absl::Status EmbeddedService::AwaitReady(int ready_fd, absl::Duration deadline,
                                         const std::function<bool()>& cancelled) {
  const Deadline until(deadline);
  std::string said;
  for (;;) {
    if (until.passed()) return NotReady(deadline);
    if (cancelled()) return ClosedError();
    pollfd poller{ready_fd, POLLIN, 0};
    const absl::Duration wait = std::min(until.left() + absl::Milliseconds(1), kCancelPoll);
    if (poll(&poller, 1, static_cast<int>(absl::ToInt64Milliseconds(wait))) <= 0) continue;
    char buffer[256];  // "ready ADDRESS\n"
    const ssize_t count = read(ready_fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    said.append(buffer, static_cast<size_t>(count));
    if (absl::StartsWith(said, "ready") && absl::StrContains(said, '\n')) return absl::OkStatus();
  }
  std::string why = PostMortem();
  if (why.empty()) why = "it closed its ready descriptor and runs on";
  return MakeClientError(absl::StatusCode::kUnavailable, client_reason::kServiceStartFailed,
                         absl::StrCat("the embedded service did not start: ", why));
}

void EmbeddedService::KeepLastWords() {
  for (;;) {
    pollfd pollers[2] = {{stderr_fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
    if (poll(pollers, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if ((pollers[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
      if (!TakeWords()) return;
    } else if (pollers[1].revents != 0) {
      return;
    }
  }
}

bool EmbeddedService::TakeWords() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (;;) {
    char buffer[4096];
    const ssize_t count = read(stderr_fd_, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 && errno == EAGAIN;
    last_words_.append(buffer, static_cast<size_t>(count));
    if (last_words_.size() > kLastWordsBytes) {
      last_words_.erase(0, last_words_.size() - kLastWordsBytes);
    }
  }
}

bool EmbeddedService::Reap(absl::Duration patience) {
  const Deadline until(patience);
  for (;;) {
    const absl::Duration left = until.left();
    pollfd poller{pidfd_, POLLIN, 0};
    // The process's end shows here even if other code reaps it, so its number is not trusted.
    const int ended = poll(&poller, 1, static_cast<int>(absl::ToInt64Milliseconds(left)));
    if (ended > 0) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!reaped_) {
        reaped_ = true;
        int status = 0;
        if (waitpid(pid_, &status, WNOHANG) == pid_) wait_status_ = status;
      }
      return true;
    }
    if (left <= absl::ZeroDuration()) return false;
  }
}

bool EmbeddedService::Alive() { return owner_ == getpid() && !Reap(absl::ZeroDuration()); }

std::string EmbeddedService::PostMortem() {
  // The connection breaks, or the pipe closes, a little before the process can be reaped.
  if (owner_ != getpid() || pidfd_ < 0 || !Reap(absl::Seconds(2))) return "";
  TakeWords();  // the thread may not have come to it yet
  return Describe();
}

std::string EmbeddedService::Describe() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::string text = absl::StrCat("the embedded service (pid ", pid_, ") ");
  if (!wait_status_.has_value()) {
    absl::StrAppend(&text, "ended; how is not known, since this program ignores SIGCHLD or reaps ",
                    "all of its children");
  } else if (WIFSIGNALED(*wait_status_)) {
    absl::StrAppend(&text, "was killed by signal ", WTERMSIG(*wait_status_));
  } else {
    absl::StrAppend(&text, "exited with status ", WEXITSTATUS(*wait_status_));
  }
  std::string words = last_words_;
  while (!words.empty() && (words.back() == '\n' || words.back() == ' ')) words.pop_back();
  if (!words.empty()) absl::StrAppend(&text, "; its last words: ", words);
  return text;
}

void EmbeddedService::Kill() {
  if (owner_ != getpid() || pidfd_ < 0) return;
  SendSignal(pidfd_, SIGKILL);
  Reap(kTermGrace);
}

void EmbeddedService::Stop() {
  if (owner_ != getpid()) return;
  if (pidfd_ >= 0 && !Reap(absl::ZeroDuration())) {
    SendSignal(pidfd_, SIGTERM);
    if (!Reap(kTermGrace)) Kill();
  }
  if (stderr_thread_.joinable()) {
    const uint64_t one = 1;
    (void)!write(stop_fd_, &one, sizeof(one));
    stderr_thread_.join();
  }
  CloseFd(&stderr_fd_);
  CloseFd(&stop_fd_);
  if (!folder_.empty()) {
    RemoveServiceFolder(folder_);
    folder_.clear();
  }
}

EmbeddedService::~EmbeddedService() {
  if (owner_ != getpid()) {
    if (stderr_thread_.joinable()) stderr_thread_.detach();  // it lives in the parent only
    return;
  }
  Stop();
  CloseFd(&pidfd_);
}

}  // namespace bulkhead::client_internal

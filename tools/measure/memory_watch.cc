#include "tools/measure/memory_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/os/memory/process_memory.h"
#include "server/os/monotonic_wait.h"
#include "tools/common/clock.h"

namespace bulkhead::tools {
namespace {

constexpr size_t kMaxLooks = 30'000;

// What the file at `path` holds, at most as much as fits `buffer`; without an allocation, which
// this process would see as its own.
absl::string_view ReadInto(const char* path, char (&buffer)[4096]) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t count = read(fd, buffer, sizeof(buffer));
  close(fd);
  return {buffer, static_cast<size_t>(std::max<ssize_t>(count, 0))};
}

// The most that a child of any thread of `pid` holds.
uint64_t LargestChild(pid_t pid) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/task", pid);
  DIR* const tasks = opendir(path);
  if (tasks == nullptr) return 0;
  uint64_t largest = 0;
  while (const dirent* task = readdir(tasks)) {
    char list[320];
    std::snprintf(list, sizeof(list), "/proc/%d/task/%s/children", pid, task->d_name);
    char buffer[4096];
    for (const absl::string_view word :
         absl::StrSplit(ReadInto(list, buffer), ' ', absl::SkipWhitespace())) {
      pid_t child = 0;
      if (absl::SimpleAtoi(word, &child)) largest = std::max(largest, AnonymousBytes(child));
    }
  }
  closedir(tasks);
  return largest;
}

}  // namespace

uint64_t AnonymousBytes(pid_t pid) {
  const auto memory = ReadProcessMemory(pid);
  return memory.ok() ? memory->anonymous_bytes : 0;
}

MemoryWatch::MemoryWatch(pid_t service, absl::Duration interval)
    : service_(service), interval_(interval), looks_(kMaxLooks), thread_([this] { Run(); }) {}

MemoryWatch::~MemoryWatch() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  thread_.join();
}

std::vector<MemoryWatch::Look> MemoryWatch::looks() const {
  absl::MutexLock lock(&mutex_);
  return {looks_.begin(), looks_.begin() + static_cast<std::ptrdiff_t>(count_)};
}

uint64_t MemoryWatch::worker_peak_bytes() const {
  absl::MutexLock lock(&mutex_);
  return worker_peak_bytes_;
}

void MemoryWatch::Keep(const Look& look) {
  worker_peak_bytes_ = std::max(worker_peak_bytes_, look.worker_bytes);
  if (count_ == looks_.size()) {
    for (size_t i = 0; 2 * i < count_; ++i) looks_[i] = looks_[2 * i];
    count_ /= 2;
    interval_ *= 2;
  }
  looks_[count_++] = look;
}

void MemoryWatch::Run() {
  const absl::Time begin = SteadyNow();
  while (true) {
    Look look;
    look.seconds = absl::ToDoubleSeconds(SteadyNow() - begin);
    look.trainer_bytes = AnonymousBytes(getpid());
    look.supervisor_bytes = AnonymousBytes(service_);
    look.worker_bytes = LargestChild(service_);
    absl::MutexLock lock(&mutex_);
    Keep(look);
    const auto stopped = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopped_; };
    if (AwaitFor(mutex_, stopped, interval_)) return;
  }
}

}  // namespace bulkhead::tools

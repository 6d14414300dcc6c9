#include "tools/bench/memory_watch.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/os/process_memory.h"

namespace bulkhead::tools {
namespace {

constexpr size_t kMaxLooks = 30'000;

// The children of every thread of `pid`.
std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::vector<pid_t> children;
  std::error_code error;
  const std::string folder = absl::StrCat("/proc/", pid, "/task");
  for (std::filesystem::directory_iterator task(folder, error), end; !error && task != end;
       task.increment(error)) {
    std::ifstream list(task->path() / "children");
    for (pid_t child = 0; list >> child;) children.push_back(child);
  }
  return children;
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
  const absl::Time begin = absl::Now();
  while (true) {
    Look look;
    look.seconds = absl::ToDoubleSeconds(absl::Now() - begin);
    look.trainer_bytes = AnonymousBytes(getpid());
    look.supervisor_bytes = AnonymousBytes(service_);
    for (const pid_t worker : ChildrenOf(service_)) {
      look.worker_bytes = std::max(look.worker_bytes, AnonymousBytes(worker));
    }
    absl::MutexLock lock(&mutex_);
    Keep(look);
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopped_), interval_)) return;
  }
}

}  // namespace bulkhead::tools

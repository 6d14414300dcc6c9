#include "server/os/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "server/base/error.h"

namespace bulkhead {

int64_t MonotonicNanos() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

absl::Status ControlEpoll(int epoll, int operation, int fd, uint32_t events) {
  epoll_event event{.events = events, .data = {.fd = fd}};
  if (epoll_ctl(epoll, operation, fd, &event) != 0) return SystemError(errno, "epoll_ctl");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<EventLoop>> EventLoop::Create() {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return SystemError(errno, "epoll_create1");
  UniqueFd wakeup(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakeup) return SystemError(errno, "eventfd");
  BULKHEAD_RETURN_IF_ERROR(ControlEpoll(epoll.get(), EPOLL_CTL_ADD, wakeup.get(), EPOLLIN));
  return std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll), std::move(wakeup)));
}

EventLoop::EventLoop(UniqueFd epoll, UniqueFd wakeup)
    : epoll_(std::move(epoll)), wakeup_(std::move(wakeup)) {}

absl::Status EventLoop::Watch(int fd, Callback callback) {
  BULKHEAD_RETURN_IF_ERROR(ControlEpoll(epoll_.get(), EPOLL_CTL_ADD, fd, EPOLLIN));
  watched_[fd] = {std::make_shared<Callback>(std::move(callback)), nullptr};
  return absl::OkStatus();
}

absl::Status EventLoop::WatchWritable(int fd, Callback callback) {
  const auto found = watched_.find(fd);
  if (found == watched_.end()) return absl::FailedPreconditionError("not watched");
  BULKHEAD_RETURN_IF_ERROR(ControlEpoll(epoll_.get(), EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT));
  found->second.writable = std::make_shared<Callback>(std::move(callback));
  return absl::OkStatus();
}

void EventLoop::UnwatchWritable(int fd) {
  const auto found = watched_.find(fd);
  if (found == watched_.end() || found->second.writable == nullptr) return;
  found->second.writable = nullptr;
  (void)ControlEpoll(epoll_.get(), EPOLL_CTL_MOD, fd, EPOLLIN);
}

void EventLoop::Unwatch(int fd) {
  if (watched_.erase(fd) > 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void EventLoop::Post(Callback callback) {
  {
    absl::MutexLock lock(&mutex_);
    if (posted_.empty()) posted_since_ns_ = MonotonicNanos();
    posted_.push_back(std::move(callback));
  }
  eventfd_write(wakeup_.get(), 1);
}

void EventLoop::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  eventfd_write(wakeup_.get(), 1);
}

absl::Duration EventLoop::SilentFor() {
  const int64_t began_ns = round_began_ns_.load(std::memory_order_relaxed);
  const int64_t now_ns = MonotonicNanos();
  int64_t since_ns = began_ns == 0 ? now_ns : began_ns;
  bool asked = false;
  {
    absl::MutexLock lock(&mutex_);
    asked = !posted_.empty();
    if (asked) since_ns = std::min(since_ns, posted_since_ns_);
  }
  if (!asked) Post([] {});
  return absl::Nanoseconds(now_ns - since_ns);
}

int EventLoop::MillisToNextTimer() const {
  const absl::Duration left = timers_.UntilNext();
  if (left == absl::InfiniteDuration()) return -1;
  // Rounded up: waking early would only spin.
  const int64_t millis = (absl::ToInt64Nanoseconds(left) + 999'999) / 1'000'000;
  return static_cast<int>(std::min<int64_t>(millis, 1 << 30));
}

void EventLoop::RunPosted() {
  std::vector<Callback> posted;
  {
    absl::MutexLock lock(&mutex_);
    posted.swap(posted_);
  }
  for (const Callback& callback : posted) callback();
}

void EventLoop::Serve(int fd, uint32_t events) {
  // An earlier callback of this round may have unwatched it. The copies keep callbacks alive that
  // unwatch themselves.
  auto found = watched_.find(fd);
  if (found != watched_.end() && (events & ~EPOLLOUT) != 0) {
    const std::shared_ptr<Callback> readable = found->second.readable;
    (*readable)();
    found = watched_.find(fd);
  }
  if (found == watched_.end() || (events & EPOLLOUT) == 0) return;
  const std::shared_ptr<Callback> writable = found->second.writable;
  if (writable != nullptr) (*writable)();
}

void EventLoop::Run() {
  epoll_event events[64];
  while (true) {
    round_began_ns_.store(0, std::memory_order_relaxed);
    const int count = epoll_wait(epoll_.get(), events, 64, MillisToNextTimer());
    round_began_ns_.store(MonotonicNanos(), std::memory_order_relaxed);
    for (int i = 0; i < count; ++i) {
      if (events[i].data.fd == wakeup_.get()) {
        eventfd_t ignored;
        eventfd_read(wakeup_.get(), &ignored);
        continue;
      }
      Serve(events[i].data.fd, events[i].events);
    }
    timers_.RunDue();
    RunPosted();
    absl::MutexLock lock(&mutex_);
    if (stopped_ && posted_.empty()) return;
  }
}

}  // namespace bulkhead

#include "server/os/files/read_ahead.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/base/error.h"
#include "server/os/event_loop.h"
#include "server/os/files/fd.h"
#include "server/os/process/process_usage.h"
#include "server/os/process/thread.h"

namespace bulkhead {
namespace {

// Of one request. A larger record is read ahead in part.
constexpr uint64_t kMostBytes = uint64_t{64} << 20;
// The kernel shortens a request to the read-ahead of the device, which may be no more than this.
constexpr uint64_t kStepBytes = uint64_t{128} << 10;

struct Request {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Bytes of a request for a whole file.
constexpr uint64_t kWhole = std::numeric_limits<uint64_t>::max();
// Of a whole file at a time; whole files that wait.
constexpr uint64_t kWholeStepBytes = uint64_t{1} << 20;
constexpr size_t kMostWaiting = 64;
// After each step, in times of what it took.
constexpr int kPause = 3;

// A helper's socket, or -1.
std::atomic<int> helper_socket = -1;

// So many requests are passed on after this thread itself had to read from a disk.
constexpr int kRequestsAfterRead = 256;

// Whether what this thread reads may come from a disk: it had to read from one lately, or the kernel
// does not count that. To pass a request on takes ten times as long as this.
bool MayBeOnDisk() {
  // The kernel's TASK_IO_ACCOUNTING.
  static const bool counted = access("/proc/self/io", F_OK) == 0;
  thread_local int64_t reads = -1;
  thread_local int left = 0;
  rusage usage{};
  if (!counted || getrusage(RUSAGE_THREAD, &usage) != 0) return true;
  if (usage.ru_inblock != reads) left = kRequestsAfterRead;
  reads = usage.ru_inblock;
  if (left == 0) return false;
  --left;
  return true;
}

void BringIn(int fd, const Request& request) {
  const uint64_t end = request.offset + std::min(request.bytes, kMostBytes);
  for (uint64_t at = request.offset; at < end; at += kStepBytes) {
    const uint64_t bytes = std::min(kStepBytes, end - at);
    if (posix_fadvise(fd, static_cast<off_t>(at), static_cast<off_t>(bytes),
                      POSIX_FADV_WILLNEED) != 0) {
      return;
    }
  }
}

// Reads the data between the file's holes, of which a place is one that was allocated and not
// written. Reads it in truth: on a virtual machine the first access to a page that a device has
// filled can take as long as its way from the disk.
void BringInWhole(int fd, const std::atomic<bool>& ended) {
  struct stat info {};
  constexpr uint64_t kBlock = 512;
  if (fstat(fd, &info) != 0 ||
      static_cast<uint64_t>(info.st_blocks) * kBlock > AvailableMemoryBytes() / 2) {
    return;
  }
  std::vector<char> piece(kWholeStepBytes);
  for (off_t at = 0; !ended && (at = lseek(fd, at, SEEK_DATA)) >= 0;) {
    const off_t hole = lseek(fd, at, SEEK_HOLE);
    while (at < hole && !ended) {
      const uint64_t bytes = std::min(kWholeStepBytes, static_cast<uint64_t>(hole - at));
      const int64_t begin_ns = MonotonicNanos();
      const ssize_t got = pread(fd, piece.data(), bytes, at);
      if (got <= 0) return;
      at += got;
      const absl::Duration took = absl::Nanoseconds(MonotonicNanos() - begin_ns);
      absl::SleepFor(std::min(kPause * took, absl::Seconds(1)));
    }
  }
}

bool Send(int socket, int fd, Request request) {
  iovec part{&request, sizeof(request)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &fd, sizeof(int));
  return sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(request);
}

// Waits for one request. The descriptor is closed if there is none.
UniqueFd Receive(int socket, Request& request) {
  iovec part{&request, sizeof(request)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);  // the kernel closes further descriptors
  const ssize_t count = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  const cmsghdr* const rights = count < 0 ? nullptr : CMSG_FIRSTHDR(&header);
  if (rights == nullptr || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS ||
      rights->cmsg_len != CMSG_LEN(sizeof(int))) {
    return UniqueFd();
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(rights), sizeof(int));
  UniqueFd received(fd);
  return count == sizeof(request) ? std::move(received) : UniqueFd();
}

}  // namespace

void ReadAhead(int fd, uint64_t offset, uint64_t bytes) {
  if (bytes == 0 || !MayBeOnDisk()) return;
  const int helper = helper_socket.load(std::memory_order_relaxed);
  if (helper >= 0 && Send(helper, fd, {offset, bytes})) return;
  BringIn(fd, {offset, bytes});
}

void ReadAheadWhole(int fd) {
  const int helper = helper_socket.load(std::memory_order_relaxed);
  if (helper >= 0) (void)Send(helper, fd, {0, kWhole});
}

void LeaveReadAheadTo(UniqueFd socket) { helper_socket = socket.release(); }

struct ReadAheadHelper::State {
  UniqueFd socket;
  std::atomic<bool> ended = false;
  absl::Mutex mutex;
  std::deque<UniqueFd> whole ABSL_GUARDED_BY(mutex);

  // Each on a thread of its own.
  void Serve();
  void BringInWholeFiles();
};

void ReadAheadHelper::State::Serve() {
  SetThreadName("read ahead");
  while (!ended) {
    Request request;
    UniqueFd file = Receive(socket.get(), request);
    if (!file) continue;
    if (request.bytes != kWhole) {
      BringIn(file.get(), request);
      continue;
    }
    absl::MutexLock lock(&mutex);
    if (whole.size() < kMostWaiting) whole.push_back(std::move(file));
  }
}

void ReadAheadHelper::State::BringInWholeFiles() {
  SetThreadName("read whole");
  while (!ended) {
    UniqueFd file;
    {
      absl::MutexLock lock(&mutex);
      const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return ended || !whole.empty(); };
      mutex.Await(absl::Condition(&due));
      if (ended) return;
      file = std::move(whole.front());
      whole.pop_front();
    }
    BringInWhole(file.get(), ended);
  }
}

absl::StatusOr<std::unique_ptr<ReadAheadHelper>> ReadAheadHelper::Start() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    return SystemError(errno, "socketpair");
  }
  auto state = std::make_shared<State>();
  state->socket = UniqueFd(fds[0]);
  UniqueFd clients(fds[1]);
  std::unique_ptr<ReadAheadHelper> helper(new ReadAheadHelper(state, std::move(clients)));
  BULKHEAD_RETURN_IF_ERROR(StartDetachedThread([state] { state->Serve(); }));
  BULKHEAD_RETURN_IF_ERROR(StartDetachedThread([state] { state->BringInWholeFiles(); }));
  return helper;
}

ReadAheadHelper::ReadAheadHelper(std::shared_ptr<State> state, UniqueFd clients)
    : state_(std::move(state)), clients_(std::move(clients)) {}

ReadAheadHelper::~ReadAheadHelper() {
  {
    absl::MutexLock lock(&state_->mutex);
    state_->ended = true;
  }
  (void)shutdown(state_->socket.get(), SHUT_RDWR);
}

}  // namespace bulkhead

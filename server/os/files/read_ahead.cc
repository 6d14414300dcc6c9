#include "server/os/files/read_ahead.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
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
#include "server/os/sockets/connection.h"

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
// Nanoseconds in which a whole file is not brought in again; it may have grown or been given up
// since. So many files are remembered.
constexpr int64_t kRemembered = 600'000'000'000;
constexpr size_t kMostKnown = 256;

// A helper's socket, or -1.
std::atomic<int> helper_socket = -1;

// So much of a processor's time goes to the requests of one client; then they wait, and where its
// socket is full, it reads by itself.
constexpr double kMostCpu = 0.25;
constexpr absl::Duration kWindow = absl::Milliseconds(200);

// So many requests are passed on after this thread itself had to read from a disk.
constexpr int kRequestsAfterRead = 256;

// Whether the file may have to come from a disk or a network: this thread had to read from one
// lately, or the kernel does not count that. To pass a request on takes ten times as long as this.
bool MayBeOnDisk(int fd) {
  // The kernel's TASK_IO_ACCOUNTING.
  static const bool counted = access("/proc/self/io", F_OK) == 0;
  thread_local int64_t reads = -1;
  thread_local int left = 0;
  rusage usage{};
  if (!counted || getrusage(RUSAGE_THREAD, &usage) != 0) return true;
  if (usage.ru_inblock != reads) left = kRequestsAfterRead;
  reads = usage.ru_inblock;
  if (left > 0) {
    --left;
    return true;
  }
  // FUSE, and NFS in some kernels, count nothing. Like all that lies on no block device they have
  // this number.
  struct stat info {};
  return fstat(fd, &info) != 0 || major(info.st_dev) == 0;
}

void BringIn(int fd, const Request& request) {
  const uint64_t end = request.offset + std::min(request.bytes, kMostBytes);
  for (uint64_t at = request.offset; at < end; at += kStepBytes) {
    const uint64_t bytes = std::min(kStepBytes, end - at);
    if (posix_fadvise(fd, static_cast<off_t>(at), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED) !=
        0) {
      return;
    }
  }
}

bool Send(int socket, int fd, Request request) {
  iovec part{&request, sizeof(request)};
  FdMessage<1> message({&part, 1});
  AttachFds({fd}, message.header);
  return sendmsg(socket, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(request);
}

// Takes one request and its file. False if the client is gone, or does not keep to the protocol.
bool Receive(int socket, Request& request, UniqueFd& file) {
  iovec part{&request, sizeof(request)};
  // The kernel fills the room up, and closes further descriptors.
  FdMessage<1> message({&part, 1});
  const ssize_t count = recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  std::vector<UniqueFd> files = TakeFds(message.header);
  if (count != sizeof(request) || files.size() != 1 ||
      (message.header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return false;
  }
  file = std::move(files[0]);
  return true;
}

}  // namespace

void ReadAhead(int fd, uint64_t offset, uint64_t bytes) {
  if (bytes == 0 || !MayBeOnDisk(fd)) return;
  const int helper = helper_socket.load(std::memory_order_relaxed);
  if (helper >= 0 && Send(helper, fd, {offset, bytes})) return;
  BringIn(fd, {offset, bytes});
}

bool ReadAheadWhole(int fd) {
  const int helper = helper_socket.load(std::memory_order_relaxed);
  return helper >= 0 && Send(helper, fd, {0, kWhole});
}

void LeaveReadAheadTo(UniqueFd socket) { helper_socket = socket.release(); }

class ReadAheadHelper::State {
 public:
  absl::Status Open();
  absl::StatusOr<UniqueFd> NewClient();
  // Each on a thread of its own.
  void Serve();
  void BringInWholeFiles();
  void End();

 private:
  // A whole file that was asked for lately.
  struct Known {
    int64_t begun_ns = 0;
    uint64_t bytes = 0;  // that were read
  };

  struct Client {
    UniqueFd socket;
    int64_t cpu_ns = 0;  // that its requests took, beyond its share of the windows before

    // Whether it has used up its share of one.
    bool RestsIn(absl::Duration window) const {
      return absl::Nanoseconds(cpu_ns) > kMostCpu * window;
    }
  };

  // Clients that have used up their share rest until a window in which they have one again.
  void BeginWindow(int64_t now_ns);
  void Listen(int client, uint32_t events) const;
  void TakeRequest(int client);
  void Forget(int client);
  void BringInWhole(int fd);
  // Reads data [at, end) of a file. False if it cannot be read, or would be too much.
  bool ReadSlowly(int fd, off_t at, off_t end, Known& known);

  UniqueFd epoll_;
  UniqueFd end_;  // an eventfd
  std::atomic<bool> ended_ = false;
  absl::Mutex mutex_;
  std::map<int, Client> clients_ ABSL_GUARDED_BY(mutex_);
  std::deque<UniqueFd> whole_ ABSL_GUARDED_BY(mutex_);
  // Of the thread that serves.
  size_t resting_ = 0;
  int64_t window_ns_ = 0;  // when it began
  // Of the thread for whole files.
  std::map<std::pair<dev_t, ino_t>, Known> known_;
  uint64_t known_bytes_ = 0;  // of all of them
  std::vector<char> piece_;
};

absl::Status ReadAheadHelper::State::Open() {
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  end_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
  epoll_event event{.events = EPOLLIN, .data = {.fd = end_.get()}};
  const bool opened =
      epoll_ && end_ && epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, end_.get(), &event) == 0;
  return opened ? absl::OkStatus() : SystemError(errno, "epoll");
}

absl::StatusOr<UniqueFd> ReadAheadHelper::State::NewClient() {
  BULKHEAD_ASSIGN_OR_RETURN(auto ends, SocketPair(SOCK_SEQPACKET));
  auto& [own, client] = ends;
  absl::MutexLock lock(&mutex_);
  epoll_event event{.events = EPOLLIN, .data = {.fd = own.get()}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, own.get(), &event) != 0) {
    return SystemError(errno, "epoll");
  }
  const int number = own.get();
  clients_.emplace(number, Client{std::move(own)});
  return std::move(client);
}

void ReadAheadHelper::State::Serve() {
  SetThreadName("read ahead");
  while (true) {
    epoll_event events[16];
    const int timeout_ms = resting_ == 0 ? -1 : static_cast<int>(kWindow / absl::Milliseconds(1));
    const int count = epoll_wait(epoll_.get(), events, std::size(events), timeout_ms);
    const int64_t now_ns = MonotonicNanos();
    if (absl::Nanoseconds(now_ns - window_ns_) >= kWindow) BeginWindow(now_ns);
    for (int i = 0; i < count; ++i) {
      if (ended_) return;
      const int client = events[i].data.fd;
      if ((events[i].events & EPOLLHUP) != 0) {
        Forget(client);
        continue;
      }
      const int64_t begin_ns = ThreadCpuNanos();
      TakeRequest(client);
      const int64_t took_ns = ThreadCpuNanos() - begin_ns;
      absl::MutexLock lock(&mutex_);
      const auto found = clients_.find(client);
      if (found == clients_.end()) continue;
      found->second.cpu_ns += took_ns;
      if (!found->second.RestsIn(kWindow)) continue;
      Listen(client, 0);
      ++resting_;
    }
  }
}

void ReadAheadHelper::State::BeginWindow(int64_t now_ns) {
  const absl::Duration passed = absl::Nanoseconds(now_ns - window_ns_);
  window_ns_ = now_ns;
  resting_ = 0;
  absl::MutexLock lock(&mutex_);
  for (auto& [number, client] : clients_) {
    const bool rested = client.RestsIn(kWindow);
    const absl::Duration owed = absl::Nanoseconds(client.cpu_ns) - kMostCpu * passed;
    client.cpu_ns = std::max<int64_t>(0, absl::ToInt64Nanoseconds(owed));
    if (client.RestsIn(kWindow)) {
      ++resting_;
    } else if (rested) {
      Listen(number, EPOLLIN);
    }
  }
}

void ReadAheadHelper::State::Listen(int client, uint32_t events) const {
  (void)ControlEpoll(epoll_.get(), EPOLL_CTL_MOD, client, events);
}

void ReadAheadHelper::State::TakeRequest(int client) {
  Request request;
  UniqueFd file;
  const bool is_there = Receive(client, request, file);
  if (file && request.bytes != kWhole) return BringIn(file.get(), request);
  if (!is_there) Forget(client);
  absl::MutexLock lock(&mutex_);
  if (file && whole_.size() < kMostWaiting) whole_.push_back(std::move(file));
}

void ReadAheadHelper::State::Forget(int client) {
  // Not by closing alone: a process that is just being started has the descriptor, too.
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, client, nullptr);
  absl::MutexLock lock(&mutex_);
  clients_.erase(client);
}

void ReadAheadHelper::State::BringInWholeFiles() {
  SetThreadName("read whole");
  while (true) {
    UniqueFd file;
    {
      absl::MutexLock lock(&mutex_);
      const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return ended_ || !whole_.empty();
      };
      mutex_.Await(absl::Condition(&due));
      if (ended_) return;
      file = std::move(whole_.front());
      whole_.pop_front();
    }
    BringInWhole(file.get());
  }
}

void ReadAheadHelper::State::BringInWhole(int fd) {
  const int64_t now_ns = MonotonicNanos();
  for (auto it = known_.begin(); it != known_.end();) {
    if (now_ns - it->second.begun_ns < kRemembered) {
      ++it;
      continue;
    }
    known_bytes_ -= it->second.bytes;
    it = known_.erase(it);
  }
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || known_.size() >= kMostKnown) return;
  const auto [known, is_new] = known_.try_emplace({info.st_dev, info.st_ino}, Known{now_ns, 0});
  if (!is_new) return;
  // Places that were allocated and not written are holes.
  for (off_t at = 0; at < info.st_size;) {
    const off_t data = lseek(fd, at, SEEK_DATA);
    if (data < 0) return;
    at = std::min(lseek(fd, data, SEEK_HOLE), info.st_size);
    if (!ReadSlowly(fd, data, at, known->second)) return;
  }
}

// Reads them in truth: on a virtual machine the first access to a page that a device has filled can
// take as long as its way from the disk.
bool ReadAheadHelper::State::ReadSlowly(int fd, off_t at, off_t end, Known& known) {
  piece_.resize(kWholeStepBytes);
  while (at < end) {
    const auto bytes = static_cast<size_t>(std::min(end - at, static_cast<off_t>(kWholeStepBytes)));
    const int64_t begin_ns = MonotonicNanos();
    if (known_bytes_ + bytes > AvailableMemoryBytes() / 2) return false;
    const ssize_t got = pread(fd, piece_.data(), bytes, at);
    if (got <= 0 || ended_) return false;
    at += got;
    known.bytes += static_cast<uint64_t>(got);
    known_bytes_ += static_cast<uint64_t>(got);
    const absl::Duration took = absl::Nanoseconds(MonotonicNanos() - begin_ns);
    absl::SleepFor(std::min(kPause * took, absl::Seconds(1)));
  }
  return true;
}

void ReadAheadHelper::State::End() {
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
  }
  const uint64_t one = 1;
  (void)!write(end_.get(), &one, sizeof(one));
}

absl::StatusOr<std::unique_ptr<ReadAheadHelper>> ReadAheadHelper::Start() {
  const auto state = std::make_shared<State>();
  BULKHEAD_RETURN_IF_ERROR(state->Open());
  std::unique_ptr<ReadAheadHelper> helper(new ReadAheadHelper(state));
  BULKHEAD_RETURN_IF_ERROR(StartDetachedThread([state] { state->Serve(); }));
  BULKHEAD_RETURN_IF_ERROR(StartDetachedThread([state] { state->BringInWholeFiles(); }));
  return helper;
}

ReadAheadHelper::~ReadAheadHelper() { state_->End(); }

absl::StatusOr<UniqueFd> ReadAheadHelper::NewClient() const { return state_->NewClient(); }

}  // namespace bulkhead

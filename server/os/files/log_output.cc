#include "server/os/files/log_output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/os/event_loop.h"
#include "server/os/files/filesystem.h"
#include "server/os/files/foreign_lines.h"
#include "server/os/process/thread.h"
#include "server/os/sockets/connection.h"

namespace bulkhead {
namespace {

constexpr size_t kPartBytes = size_t{64} << 10;
constexpr int kMostEvents = 64;  // in a round
constexpr absl::Duration kFlushTick = absl::Milliseconds(2);

// Leaves signals to the threads that wait for them.
void BlockSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

// Number of bytes at the end that belong to an incomplete UTF-8 character.
size_t UnfinishedBytes(absl::string_view text) {
  for (size_t back = 1; back < 4 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    size_t needed = 1;
    if (byte >= 0xc2 && byte < 0xf5) needed = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return needed > back ? back : 0;
  }
  return 0;
}

// False if writing is no longer possible.
bool WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(fd, text.data(), std::min(text.size(), kPartBytes));
    if (count < 0 && errno == EAGAIN) {  // another process made the shared descriptor non-blocking
      pollfd writable = {fd, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (count < 0 && errno != EINTR) {
      return false;
    } else if (count > 0) {
      text.remove_prefix(static_cast<size_t>(count));
    }
  }
  return true;
}

// A full disk loses the text, and no more.
void WriteToFile(int fd, absl::string_view text) {
  if (!WriteAll(fd, text)) return;
  TrimFile(fd, LogOutput::kMostFileBytes, LogOutput::kKeptFileBytes);
  lseek(fd, 0, SEEK_END);
}

}  // namespace

struct LogOutput::State {
  // Another process that writes here.
  struct Writer {
    UniqueFd fd;         // our end of its socket pair
    std::string rest;    // read, but not queued yet: a line without its end
    int64_t due_ns = 0;  // when it is to be queued all the same; 0: nothing waits
  };

  State(LogStyle lines, absl::Duration wait) : style(lines), line_wait(wait), foreign(lines) {}

  const LogStyle style;
  const absl::Duration line_wait;
  UniqueFd out;
  UniqueFd file;   // may be closed
  UniqueFd epoll;  // of the writers and `wake`
  UniqueFd wake;   // readable: the reading thread shall look whether it is to end
  absl::Mutex mutex;
  std::string queue ABSL_GUARDED_BY(mutex);
  std::map<int, Writer> writers ABSL_GUARDED_BY(mutex);  // by descriptor
  ForeignLines foreign ABSL_GUARDED_BY(mutex);           // of all of them
  int in_line ABSL_GUARDED_BY(mutex) = -1;  // the writer that `foreign` took text from last
  uint64_t dropped ABSL_GUARDED_BY(mutex) = 0;
  uint64_t told ABSL_GUARDED_BY(mutex) = 0;  // of the dropped lines
  bool writing ABSL_GUARDED_BY(mutex) = false;
  bool ended ABSL_GUARDED_BY(mutex) = false;

  void Queue(absl::string_view text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (queue.size() + text.size() <= kMostBytes) {
      absl::StrAppend(&queue, text);
    } else {
      dropped +=
          std::max<uint64_t>(1, static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n')));
    }
  }
  absl::Status Watch(int fd) const { return ControlEpoll(epoll.get(), EPOLL_CTL_ADD, fd, EPOLLIN); }

  void WriteQueued() ABSL_LOCKS_EXCLUDED(mutex);
  void ReadWriters() ABSL_LOCKS_EXCLUDED(mutex);
  // Reads what is there, at most kPartBytes, into `part`. False if the writer has ended.
  bool Read(Writer& writer, std::string& part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Queues the first `size` bytes of a writer's rest.
  void QueueRest(Writer& writer, size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Queues what waited long enough for the end of its line. Returns the time until the next is due,
  // in ms; -1: none is.
  int QueueDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  bool NothingWaits() ABSL_LOCKS_EXCLUDED(mutex);
};

void LogOutput::State::WriteQueued() {
  bool writable = true;
  while (true) {
    std::string text;
    {
      absl::MutexLock lock(&mutex);
      writing = false;
      const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
        return !queue.empty() || dropped > told || ended;
      };
      mutex.Await(absl::Condition(&due));
      if (ended && queue.empty()) return;
      text.swap(queue);
      if (dropped > told) {
        absl::StrAppend(&text, style == LogStyle::kJson ? R"({"level":"warning","text":")" : "",
                        "bulkheadd: ", dropped - told,
                        " lines of the log were dropped here, because its reader did not keep up",
                        style == LogStyle::kJson ? "\"}\n" : "\n");
        told = dropped;
      }
      writing = true;
    }
    if (file) WriteToFile(file.get(), text);
    writable = writable && WriteAll(out.get(), text);
  }
}

bool LogOutput::State::Read(Writer& writer, std::string& part) {
  const ssize_t count = read(writer.fd.get(), part.data(), part.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  const bool is_over = count <= 0;
  if (!is_over) writer.rest.append(part.data(), static_cast<size_t>(count));
  const size_t lines = writer.rest.rfind('\n') + 1;  // 0: none ends
  if (lines > 0) QueueRest(writer, lines);
  if (is_over || writer.rest.size() > ForeignLines::kMostLineBytes) {
    QueueRest(writer, writer.rest.size() - (is_over ? 0 : UnfinishedBytes(writer.rest)));
  }
  const bool waits = writer.rest.size() > UnfinishedBytes(writer.rest);
  if (!waits) {
    writer.due_ns = 0;
  } else if (writer.due_ns == 0 || lines > 0) {
    writer.due_ns = MonotonicNanos() + absl::ToInt64Nanoseconds(line_wait);
  }
  return !is_over;
}

void LogOutput::State::QueueRest(Writer& writer, size_t size) {
  if (size == 0) return;
  std::string text;
  if (in_line != writer.fd.get()) text = std::string(foreign.End());
  in_line = writer.fd.get();
  text += foreign.Take(absl::string_view(writer.rest).substr(0, size), MonotonicNanos());
  if (!text.empty()) Queue(text);
  writer.rest.erase(0, size);
}

int LogOutput::State::QueueDue() {
  const int64_t now_ns = MonotonicNanos();
  int64_t next_ns = 0;
  for (auto& [fd, writer] : writers) {
    if (writer.due_ns == 0) continue;
    if (writer.due_ns <= now_ns) {
      QueueRest(writer, writer.rest.size() - UnfinishedBytes(writer.rest));
      writer.due_ns = 0;
    } else if (next_ns == 0 || writer.due_ns < next_ns) {
      next_ns = writer.due_ns;
    }
  }
  return next_ns == 0 ? -1 : static_cast<int>((next_ns - now_ns) / 1'000'000 + 1);
}

void LogOutput::State::ReadWriters() {
  std::string part(kPartBytes, '\0');
  epoll_event events[kMostEvents];
  int wait_ms = -1;
  while (true) {
    const int count = epoll_wait(epoll.get(), events, kMostEvents, wait_ms);
    if (count < 0 && errno != EINTR) return;
    for (int i = 0; i < count; ++i) {
      // Locked, so that every text is always either in a socket, in a rest or in the queue; for
      // each anew, so that this process can write in between.
      absl::MutexLock lock(&mutex);
      const auto writer = writers.find(events[i].data.fd);
      if (writer == writers.end() || Read(writer->second, part)) continue;
      if (in_line == writer->first) {
        if (const absl::string_view end = foreign.End(); !end.empty()) Queue(end);
        in_line = -1;  // another may get its number
      }
      writers.erase(writer);
    }
    absl::MutexLock lock(&mutex);
    if (ended) return;
    wait_ms = QueueDue();
  }
}

bool LogOutput::State::NothingWaits() {
  absl::MutexLock lock(&mutex);
  for (const auto& [fd, writer] : writers) {
    int unread = 0;
    if (writer.due_ns != 0 || (ioctl(fd, FIONREAD, &unread) == 0 && unread > 0)) return false;
  }
  return queue.empty() && dropped == told && !writing;
}

absl::StatusOr<UniqueFd> OpenLogFile(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file || lseek(file.get(), 0, SEEK_END) < 0) return SystemError(errno, path);
  return file;
}

absl::StatusOr<std::unique_ptr<LogOutput>> LogOutput::Start(UniqueFd out, UniqueFd file,
                                                            LogStyle style,
                                                            absl::Duration line_wait) {
  auto state = std::make_shared<State>(style, line_wait);
  state->out = std::move(out);
  state->file = std::move(file);
  state->epoll.reset(epoll_create1(EPOLL_CLOEXEC));
  state->wake.reset(eventfd(0, EFD_CLOEXEC));
  if (!state->epoll || !state->wake) return SystemError(errno, "epoll");
  BULKHEAD_RETURN_IF_ERROR(state->Watch(state->wake.get()));
  std::unique_ptr<LogOutput> output(new LogOutput(state));
  const auto start = [&](void (State::*work)()) {
    return StartDetachedThread([state, work] {
      BlockSignals();
      (state.get()->*work)();
    });
  };
  BULKHEAD_RETURN_IF_ERROR(start(&State::WriteQueued));
  BULKHEAD_RETURN_IF_ERROR(start(&State::ReadWriters));
  return output;
}

LogOutput::LogOutput(std::shared_ptr<State> state) : state_(std::move(state)) {}

LogOutput::~LogOutput() {
  absl::MutexLock lock(&state_->mutex);
  state_->ended = true;
  eventfd_write(state_->wake.get(), 1);
}

void LogOutput::Write(absl::string_view text) {
  absl::MutexLock lock(&state_->mutex);
  const absl::string_view end = state_->foreign.End();
  state_->Queue(end.empty() ? text : absl::StrCat(end, text));
}

absl::StatusOr<UniqueFd> LogOutput::Connect() {
  BULKHEAD_ASSIGN_OR_RETURN(auto ends, SocketPair(SOCK_STREAM));
  auto& [own, other] = ends;
  // The other end stays blocking, because the process that gets it expects that.
  if (fcntl(own.get(), F_SETFL, O_NONBLOCK) != 0) return SystemError(errno, "fcntl");
  absl::MutexLock lock(&state_->mutex);
  BULKHEAD_RETURN_IF_ERROR(state_->Watch(own.get()));
  state_->writers[own.get()].fd = std::move(own);
  return std::move(other);
}

uint64_t LogOutput::lines_dropped() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->dropped + state_->foreign.dropped();
}

bool LogOutput::Flush(absl::Duration patience) {
  const int64_t deadline_ns = MonotonicNanos() + absl::ToInt64Nanoseconds(patience);
  while (!state_->NothingWaits()) {
    if (MonotonicNanos() >= deadline_ns) return false;
    absl::SleepFor(kFlushTick);
  }
  return true;
}

}  // namespace bulkhead

#include "server/os/files/log_output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
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

namespace bulkhead {
namespace {

constexpr size_t kPartBytes = size_t{64} << 10;
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
  explicit State(LogStyle lines) : style(lines), foreign(lines) {}

  const LogStyle style;
  UniqueFd out;
  UniqueFd file;       // may be closed
  UniqueFd read_end;   // of the pipe
  UniqueFd write_end;  // closed with the object, which ends the reading thread
  absl::Mutex mutex;
  std::string queue ABSL_GUARDED_BY(mutex);
  ForeignLines foreign ABSL_GUARDED_BY(mutex);  // of the pipe
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
  void WriteQueued() ABSL_LOCKS_EXCLUDED(mutex);
  void ReadPipe() ABSL_LOCKS_EXCLUDED(mutex);
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

void LogOutput::State::ReadPipe() {
  std::string part(kPartBytes, '\0');
  size_t held = 0;  // bytes of an incomplete character
  pollfd readable = {read_end.get(), POLLIN, 0};
  while (true) {
    if (poll(&readable, 1, -1) < 0 && errno != EINTR) return;
    // Locked, so that every text is always either in the pipe or in the queue.
    absl::MutexLock lock(&mutex);
    const ssize_t count = read(read_end.get(), part.data() + held, part.size() - held);
    if (count < 0) continue;
    absl::string_view text(part.data(), held + static_cast<size_t>(count));
    held = count == 0 ? 0 : UnfinishedBytes(text);
    const std::string lines = foreign.Take(text.substr(0, text.size() - held), MonotonicNanos());
    if (!lines.empty()) Queue(lines);
    if (count == 0) return;
    std::copy(text.end() - held, text.end(), part.begin());
  }
}

bool LogOutput::State::NothingWaits() {
  absl::MutexLock lock(&mutex);
  int in_pipe = 0;
  if (ioctl(read_end.get(), FIONREAD, &in_pipe) != 0) in_pipe = 0;
  return in_pipe == 0 && queue.empty() && dropped == told && !writing;
}

absl::StatusOr<UniqueFd> OpenLogFile(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file || lseek(file.get(), 0, SEEK_END) < 0) return SystemError(errno, path);
  return file;
}

absl::StatusOr<std::unique_ptr<LogOutput>> LogOutput::Start(UniqueFd out, UniqueFd file,
                                                            LogStyle style) {
  auto state = std::make_shared<State>(style);
  state->out = std::move(out);
  state->file = std::move(file);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return SystemError(errno, "pipe");
  state->read_end.reset(ends[0]);
  state->write_end.reset(ends[1]);
  // The write end stays blocking, because the processes that get it expect that.
  if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) return SystemError(errno, "fcntl");
  std::unique_ptr<LogOutput> output(new LogOutput(state));
  const auto start = [&](void (State::*work)()) {
    return StartDetachedThread([state, work] {
      BlockSignals();
      (state.get()->*work)();
    });
  };
  BULKHEAD_RETURN_IF_ERROR(start(&State::WriteQueued));
  BULKHEAD_RETURN_IF_ERROR(start(&State::ReadPipe));
  return output;
}

LogOutput::LogOutput(std::shared_ptr<State> state) : state_(std::move(state)) {}

LogOutput::~LogOutput() {
  state_->write_end.reset();
  absl::MutexLock lock(&state_->mutex);
  state_->ended = true;
}

void LogOutput::Write(absl::string_view text) {
  absl::MutexLock lock(&state_->mutex);
  const absl::string_view end = state_->foreign.End();
  state_->Queue(end.empty() ? text : absl::StrCat(end, text));
}

int LogOutput::pipe() const { return state_->write_end.get(); }

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

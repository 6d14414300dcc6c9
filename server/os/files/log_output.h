#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/os/files/fd.h"
#include "server/os/files/log_style.h"

namespace bulkhead {

// The log of the service and its workers. Writers never wait for its reader: text is queued, up to
// kMostBytes; when the queue is full, further lines are dropped and counted.
//
//   this process ──Write────────────────────────▶ ┌───────┐
//   each worker ──its socket──▶ reading thread ─▶ │ queue │ ──writing thread──▶ descriptor
//                                                 └───────┘
//
// A second descriptor, of a file, gets the same: when it exceeds kMostFileBytes, it is cut to its
// newest kKeptFileBytes. Text of other processes goes through ForeignLines, so that it cannot pass
// for lines of this process or command a terminal. Their lines stay whole: one whose end does not
// come is held back, for at most `line_wait` and up to ForeignLines::kMostLineBytes. After dropped
// lines a line tells their number. The threads are detached, because writing may hang in the kernel
// for ever; they end after this object, if they can. Thread-safe.
class LogOutput {
 public:
  static constexpr size_t kMostBytes = size_t{1} << 20;
  static constexpr uint64_t kMostFileBytes = uint64_t{2} << 20;
  static constexpr uint64_t kKeptFileBytes = uint64_t{1} << 20;
  static constexpr absl::Duration kLineWait = absl::Milliseconds(100);

  // Writes to `out`, and to `file` (OpenLogFile) if it is open. `style`: of the lines that it makes
  // itself. Errors: those of descriptors and threads.
  static absl::StatusOr<std::unique_ptr<LogOutput>> Start(UniqueFd out, UniqueFd file = {},
                                                          LogStyle style = LogStyle::kText,
                                                          absl::Duration line_wait = kLineWait);
  // Queued text may be lost; call Flush first.
  ~LogOutput();

  // Queues text that ends with a newline.
  void Write(absl::string_view text);
  // A new descriptor for one other process's standard output and error, until all its copies are
  // closed. It is an end of a socket pair of its own: whoever has it can neither open it again by a
  // path nor read, or make non-blocking, what other processes write to. Errors: too many
  // descriptors.
  absl::StatusOr<UniqueFd> Connect();
  uint64_t lines_dropped() const;
  // Waits until all earlier text is written; false after `patience`.
  bool Flush(absl::Duration patience);

 private:
  struct State;
  explicit LogOutput(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;
};

// Opens a log for writing behind what it holds; makes it, for this user alone, if there is none.
absl::StatusOr<UniqueFd> OpenLogFile(const std::string& path);

}  // namespace bulkhead

#ifndef BULKHEAD_SERVER_OS_FILES_LOG_OUTPUT_H_
#define BULKHEAD_SERVER_OS_FILES_LOG_OUTPUT_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// Where the log of the service and its workers goes. Who writes to it never waits for who reads it:
// text waits in a queue of kMostBytes, and what comes when that is full is dropped and counted.
//
//   this process ──Write──────────────▶ ┌───────┐
//   workers ──pipe──▶ reading thread ─▶ │ queue │ ──writing thread──▶ descriptor
//                                       └───────┘
//
// What comes by the pipe is made printable: it is lines and tabs, other control characters, which
// could command a terminal, are written as "\xHH". Where lines were dropped, a line says how many.
// Both threads are detached, as the writing one may hang in the kernel for ever; they end when this
// object is gone, if they can. Thread-safe.
class LogOutput {
 public:
  static constexpr size_t kMostBytes = size_t{1} << 20;

  // Writes to `out`. Errors: those of pipes and threads.
  static absl::StatusOr<std::unique_ptr<LogOutput>> Start(UniqueFd out);
  // What is queued may be lost; Flush before.
  ~LogOutput();

  // Queues text that ends with a line's end.
  void Write(absl::string_view text);
  // The end of a pipe, for the standard output and error of other processes. Owned by this object.
  int pipe() const;
  uint64_t lines_dropped() const;
  // Waits until all that was said before is written; false when that took longer than `patience`.
  bool Flush(absl::Duration patience);

 private:
  struct State;
  explicit LogOutput(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_FILES_LOG_OUTPUT_H_

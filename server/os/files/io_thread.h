#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace bulkhead {

// One thread for work that must not block others: a disk that does not answer holds up only this
// thread. Work runs in the order of posting. The thread may hang in the kernel for ever, so it
// is detached, and work must own all that it uses. Thread-safe.
//
// Life: Start → Post, Run … → destruction. Queued work still runs after that, if the disk answers.
class IoThread {
 public:
  // A longer queue means that the disk does not answer.
  static constexpr size_t kMostQueued = 256;

  // Errors: OUT_OF_THREADS.
  static absl::StatusOr<std::shared_ptr<IoThread>> Start();
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  // Queues `work`; false, without effect, if the queue is full.
  bool Post(std::function<void()> work);
  // Queues `work` and waits for it. False after `patience`; the work may still run later. Must not
  // be called on this thread.
  bool Run(std::function<void()> work, absl::Duration patience);

 private:
  struct State;
  explicit IoThread(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;
};

}  // namespace bulkhead

#ifndef BULKHEAD_SERVER_OS_FILES_IO_THREAD_H_
#define BULKHEAD_SERVER_OS_FILES_IO_THREAD_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace bulkhead {

// One thread for disk work that others must not wait for: a disk that does not answer
// holds up this thread alone. Work is done in the order of posting; as the thread may hang in the
// kernel for ever, it is detached, and work must own all that it touches. Thread-safe.
//
// Life: Start → Post, Run … → destruction, after which queued work is still done, if the disk
// answers.
class IoThread {
 public:
  // Beyond this the disk does not answer.
  static constexpr size_t kMostQueued = 256;

  // Errors: OUT_OF_THREADS.
  static absl::StatusOr<std::shared_ptr<IoThread>> Start();
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  // Has `work` done; false, and it never is, when too much waits.
  bool Post(std::function<void()> work);
  // Has `work` done and waits for it; false when it was not done within `patience`, but may be
  // later. Not to be called on this thread.
  bool Run(std::function<void()> work, absl::Duration patience);

 private:
  struct State;
  explicit IoThread(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_FILES_IO_THREAD_H_

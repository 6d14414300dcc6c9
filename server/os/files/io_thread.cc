#include "server/os/files/io_thread.h"

#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "server/base/error.h"
#include "server/os/monotonic_wait.h"
#include "server/os/process/thread.h"

namespace bulkhead {

struct IoThread::State {
  absl::Mutex mutex;
  std::deque<std::function<void()>> queue ABSL_GUARDED_BY(mutex);
  bool ended ABSL_GUARDED_BY(mutex) = false;

  void Run() ABSL_LOCKS_EXCLUDED(mutex);
};

void IoThread::State::Run() {
  while (true) {
    std::function<void()> work;
    {
      absl::MutexLock lock(&mutex);
      const auto due = [this]()
                           ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return ended || !queue.empty(); };
      mutex.Await(absl::Condition(&due));
      if (queue.empty()) return;
      work = std::move(queue.front());
      queue.pop_front();
    }
    work();
  }
}

absl::StatusOr<std::shared_ptr<IoThread>> IoThread::Start() {
  auto state = std::make_shared<State>();
  BULKHEAD_RETURN_IF_ERROR(StartDetachedThread([state] { state->Run(); }));
  return std::shared_ptr<IoThread>(new IoThread(std::move(state)));
}

IoThread::IoThread(std::shared_ptr<State> state) : state_(std::move(state)) {}

IoThread::~IoThread() {
  absl::MutexLock lock(&state_->mutex);
  state_->ended = true;
}

bool IoThread::Post(std::function<void()> work) {
  absl::MutexLock lock(&state_->mutex);
  if (state_->queue.size() >= kMostQueued) return false;
  state_->queue.push_back(std::move(work));
  return true;
}

bool IoThread::Run(std::function<void()> work, absl::Duration patience) {
  const auto done = std::make_shared<absl::Notification>();
  const bool posted = Post([done, work = std::move(work)] {
    work();
    done->Notify();
  });
  return posted && AwaitFor(*done, patience);
}

}  // namespace bulkhead

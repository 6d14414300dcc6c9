#pragma once

#include <sys/types.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace bulkhead::tools {

// Looks at the anonymous memory of this process, of a service and of the service's workers, all by
// /proc, every few milliseconds and from a thread of its own, until it is destroyed. Takes all its
// memory at the start, since it shall not see itself; when that is full, every other look is
// forgotten, and the interval doubled.
class MemoryWatch {
 public:
  struct Look {
    double seconds = 0;  // since the watch began
    uint64_t trainer_bytes = 0;
    uint64_t supervisor_bytes = 0;
    uint64_t worker_bytes = 0;  // of the worker that holds most
  };

  explicit MemoryWatch(pid_t service, absl::Duration interval = absl::Milliseconds(10));
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  std::vector<Look> looks() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The highest that the worker ever held, forgotten looks included.
  uint64_t worker_peak_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run();

  const pid_t service_;
  void Keep(const Look& look) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Duration interval_;  // of the thread
  mutable absl::Mutex mutex_;
  std::vector<Look> looks_ ABSL_GUARDED_BY(mutex_);  // of full size from the start
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t worker_peak_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Anonymous memory of a process in bytes; 0 when there is none.
uint64_t AnonymousBytes(pid_t pid);

}  // namespace bulkhead::tools

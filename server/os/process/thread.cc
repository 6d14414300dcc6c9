#include "server/os/process/thread.h"

#include <pthread.h>
#include <time.h>

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {

absl::Status StartThread(std::function<void()> work, std::thread& thread) {
  try {
    thread = std::thread(std::move(work));
  } catch (const std::system_error& error) {
    return MakeError(absl::StatusCode::kResourceExhausted, reason::kOutOfThreads,
                     absl::StrCat("the system gives no more threads (", error.what(),
                                  "); raise the limit of tasks (pids) of the service's container "
                                  "or user"));
  }
  return absl::OkStatus();
}

absl::Status StartDetachedThread(std::function<void()> work) {
  std::thread thread;
  BULKHEAD_RETURN_IF_ERROR(StartThread(std::move(work), thread));
  thread.detach();
  return absl::OkStatus();
}

void SetThreadName(const char* name) { pthread_setname_np(pthread_self(), name); }

int64_t ThreadCpuNanos() {
  timespec used;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<int64_t>(used.tv_sec) * 1'000'000'000 + used.tv_nsec;
}

void SetDefaultStackBytes(size_t bytes) {
  pthread_attr_t attributes;
  if (pthread_getattr_default_np(&attributes) != 0) return;
  if (pthread_attr_setstacksize(&attributes, bytes) == 0) pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

}  // namespace bulkhead

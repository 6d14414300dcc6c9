#ifndef BULKHEAD_SERVER_OS_THREAD_H_
#define BULKHEAD_SERVER_OS_THREAD_H_

#include <functional>
#include <thread>

#include "absl/status/status.h"

namespace bulkhead {

// Runs `work` on a new thread. RESOURCE_EXHAUSTED (OUT_OF_THREADS) when the system gives none, in
// which case `work` never runs; std::thread would end the process.
absl::Status StartThread(std::function<void()> work, std::thread& thread);
absl::Status StartDetachedThread(std::function<void()> work);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_THREAD_H_

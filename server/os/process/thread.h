#ifndef BULKHEAD_SERVER_OS_PROCESS_THREAD_H_
#define BULKHEAD_SERVER_OS_PROCESS_THREAD_H_

#include <cstddef>
#include <functional>
#include <thread>

#include "absl/status/status.h"

namespace bulkhead {

// Runs `work` on a new thread. RESOURCE_EXHAUSTED (OUT_OF_THREADS) when the system gives none, in
// which case `work` never runs; std::thread would end the process.
absl::Status StartThread(std::function<void()> work, std::thread& thread);
absl::Status StartDetachedThread(std::function<void()> work);

// From now on threads of this process whose starter asks for no size get stacks of that many bytes,
// all of which count as private memory, touched or not.
void SetDefaultStackBytes(size_t bytes);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_PROCESS_THREAD_H_

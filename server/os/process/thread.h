#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>

#include "absl/status/status.h"

namespace bulkhead {

// Runs `work` on a new thread. RESOURCE_EXHAUSTED (OUT_OF_THREADS) if the system refuses; `work`
// then never runs. (std::thread would end the process.)
absl::Status StartThread(std::function<void()> work, std::thread& thread);
absl::Status StartDetachedThread(std::function<void()> work);

// Names the calling thread in /proc, for people; at most 15 characters.
void SetThreadName(const char* name);

// CPU time of the calling thread, in nanoseconds.
int64_t ThreadCpuNanos();

// Sets the default stack size of this process's future threads. All of a stack counts as private
// memory, even untouched.
void SetDefaultStackBytes(size_t bytes);

}  // namespace bulkhead

#pragma once

#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace bulkhead::client_internal {

// Runs `work` on a new thread. RESOURCE_EXHAUSTED (OUT_OF_THREADS) when the system gives none, in
// which case `work` never runs; an exception would end the trainer. `purpose` is for the message:
// "to read a stream".
absl::Status StartThread(absl::string_view purpose, std::function<void()> work,
                         std::thread* thread);

}  // namespace bulkhead::client_internal

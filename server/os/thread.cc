#include "server/os/thread.h"

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

}  // namespace bulkhead

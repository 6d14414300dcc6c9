#include "client/cpp/internal/base/thread.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/base/error.h"

namespace bulkhead::client_internal {

absl::Status StartThread(absl::string_view purpose, std::function<void()> work,
                         std::thread* thread) {
  try {
    *thread = std::thread(std::move(work));
  } catch (const std::system_error& error) {
    return MakeClientError(absl::StatusCode::kResourceExhausted, client_reason::kOutOfThreads,
                           absl::StrCat("the system gives no thread ", purpose, " (", error.what(),
                                        "); raise the limit of tasks (pids) of the trainer's "
                                        "container or user"));
  }
  return absl::OkStatus();
}

}  // namespace bulkhead::client_internal

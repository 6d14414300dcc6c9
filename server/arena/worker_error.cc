#include "server/arena/worker_error.h"

#include <string>

#include "server/base/error.h"

namespace bulkhead {

internal::v1::WorkerError ToWorkerError(const absl::Status& status) {
  internal::v1::WorkerError error;
  error.set_code(static_cast<int>(status.code()));
  error.set_message(std::string(status.message()));
  if (const auto info = GetErrorInfo(status)) {
    error.set_reason(info->reason);
    for (const auto& [key, value] : info->metadata) (*error.mutable_metadata())[key] = value;
  }
  return error;
}

absl::Status StatusFromWorkerError(const internal::v1::WorkerError& error) {
  auto code = static_cast<absl::StatusCode>(error.code());
  if (code == absl::StatusCode::kOk) code = absl::StatusCode::kInternal;
  if (error.code() < 0 || error.code() > 16) code = absl::StatusCode::kUnknown;
  return MakeError(code, error.reason().empty() ? reason::kInternal : error.reason(),
                   error.message(), {error.metadata().begin(), error.metadata().end()});
}

}  // namespace bulkhead

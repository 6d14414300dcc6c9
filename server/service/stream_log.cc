#include "server/service/stream_log.h"

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

std::string Reason(const absl::Status& status) {
  if (status.ok()) return "it is complete, or its client closed it";
  const auto info = GetErrorInfo(status);
  const std::string message(status.message());
  return info.has_value() ? absl::StrCat(info->reason, ": ", message) : message;
}

}  // namespace

void StreamLog::SetStream(absl::string_view name, uint32_t rank) {
  absl::MutexLock lock(&mutex_);
  stream_ = absl::StrCat("stream ", name, " of rank ", rank);
}

void StreamLog::Opened(absl::string_view pipeline, const v1::Opened& opened, bool continues) {
  absl::MutexLock lock(&mutex_);
  pipeline_ = std::string(pipeline);
  spdlog::info("{} {}: pipeline {}, bytes {}, by {} to {}; boot {}", stream_,
               continues ? "continues" : "is opened", pipeline_,
               opened.cursor().bytes_fingerprint(),
               opened.transport() == v1::TRANSPORT_SHM ? "shared memory" : "gRPC", peer_, boot_id_);
}

void StreamLog::Ended(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (pipeline_.empty()) {
    spdlog::warn("{} is refused to {}: {}; boot {}", stream_, peer_, Reason(status), boot_id_);
  } else {
    spdlog::info("{} has ended: {}; pipeline {}, boot {}", stream_, Reason(status), pipeline_,
                 boot_id_);
  }
}

}  // namespace bulkhead

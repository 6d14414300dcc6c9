#include "server/service/stream_log.h"

#include <spdlog/spdlog.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/os/event_loop.h"

namespace bulkhead {
namespace {

std::string Reason(const absl::Status& status, bool is_complete) {
  if (status.ok()) return is_complete ? "it is complete" : "its client closed it";
  const auto info = GetErrorInfo(status);
  const std::string message(status.message());
  return info.has_value() ? absl::StrCat(info->reason, ": ", message) : message;
}

}  // namespace

void StreamLog::SetStream(absl::string_view name, uint32_t rank) {
  absl::MutexLock lock(&mutex_);
  stream_ = absl::StrCat("stream ", name, " of rank ", rank);
}

void StreamLog::Opened(absl::string_view pipeline, absl::string_view spec, const v1::Opened& opened,
                       bool continues) {
  counts_->Opened(continues);
  absl::MutexLock lock(&mutex_);
  pipeline_ = std::string(pipeline);
  spdlog::info("{} {}: {}pipeline {}, bytes {}, by {} to {}; boot {}", stream_,
               continues ? "continues" : "is opened",
               spec.empty() ? std::string() : absl::StrCat("spec ", spec, ", "), pipeline_,
               opened.cursor().bytes_fingerprint(),
               opened.transport() == v1::TRANSPORT_SHM ? "shared memory" : "gRPC", peer_, boot_id_);
}

void StreamLog::Event(const v1::SampleEvent& event) {
  absl::MutexLock lock(&mutex_);
  if (event.kind() == v1::SampleEvent::KIND_QUARANTINED) {
    spdlog::warn("{} quarantines a record: {}; pipeline {}, boot {}", stream_, event.message(),
                 pipeline_, boot_id_);
  } else if (event.kind() == v1::SampleEvent::KIND_SUBSTITUTED) {
    const std::optional<uint64_t> untold = substitutions_.Take(MonotonicNanos());
    if (!untold.has_value()) return;
    spdlog::warn("{} substitutes a sample: {}; pipeline {}, boot {}{}", stream_, event.message(),
                 pipeline_, boot_id_, UntoldText(*untold, "substitutions"));
  }
}

void StreamLog::Complete() {
  absl::MutexLock lock(&mutex_);
  is_complete_ = true;
}

void StreamLog::Ended(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  const std::string why = Reason(status, is_complete_);
  if (pipeline_.empty()) {
    counts_->Refused(status);
    const std::optional<uint64_t> untold = refusals_->Take(MonotonicNanos());
    if (!untold.has_value()) return;
    spdlog::warn("{} is refused to {}: {}; boot {}{}", stream_, peer_, why, boot_id_,
                 UntoldText(*untold, "refusals"));
  } else {
    counts_->Ended(status, is_complete_);
    spdlog::info("{} has ended: {}; pipeline {}, boot {}", stream_, why, pipeline_, boot_id_);
  }
}

}  // namespace bulkhead

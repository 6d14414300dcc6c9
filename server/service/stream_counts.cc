#include "server/service/stream_counts.h"

#include "server/base/error.h"

namespace bulkhead {
namespace {

std::string ReasonOf(const absl::Status& status) {
  if (const auto info = GetErrorInfo(status); info.has_value()) return info->reason;
  return absl::IsCancelled(status) ? "gone" : absl::StatusCodeToString(status.code());
}

}  // namespace

void StreamCounts::Opened(bool continues) {
  Count(v1::StreamCount::EVENT_OPENED, continues ? "resumed" : "new");
}

void StreamCounts::Refused(const absl::Status& why) {
  Count(v1::StreamCount::EVENT_REFUSED, why.ok() ? "closed" : ReasonOf(why));
}

void StreamCounts::Ended(const absl::Status& why, bool is_complete) {
  const char* const done = is_complete ? "finished" : "closed";
  Count(v1::StreamCount::EVENT_ENDED, why.ok() ? done : ReasonOf(why));
}

void StreamCounts::Count(v1::StreamCount::Event event, absl::string_view reason) {
  absl::MutexLock lock(&mutex_);
  ++counts_[{event, std::string(reason)}];
}

void StreamCounts::Append(v1::GetStatusResponse& status) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [what, count] : counts_) {
    v1::StreamCount& counted = *status.add_stream_counts();
    counted.set_event(what.first);
    counted.set_reason(what.second);
    counted.set_count(count);
  }
}

}  // namespace bulkhead

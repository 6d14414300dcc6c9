#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// Counts the streams of a service by what became of them. Thread-safe.
class StreamCounts {
 public:
  void Opened(bool continues) ABSL_LOCKS_EXCLUDED(mutex_);
  void Refused(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  // An opened stream ends. `is_complete`: it has delivered its last batch.
  void Ended(const absl::Status& why, bool is_complete) ABSL_LOCKS_EXCLUDED(mutex_);

  void Append(v1::GetStatusResponse& status) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Count(v1::StreamCount::Event event, absl::string_view reason) ABSL_LOCKS_EXCLUDED(mutex_);

  mutable absl::Mutex mutex_;
  // Reasons come from this service's own errors, so there are few.
  std::map<std::pair<v1::StreamCount::Event, std::string>, uint64_t> counts_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead

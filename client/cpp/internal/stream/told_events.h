#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/loader.h"

namespace bulkhead::client_internal {

// Which events a program was told of: a batch that is sent again reports again. Thread-safe.
class ToldEvents {
 public:
  // Whether the program has not been told of it; from now on it has.
  bool IsNew(const SubstitutionEvent& event) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsNew(const QuarantineEvent& event) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  // Epochs and positions, the newest last.
  std::deque<std::pair<uint64_t, uint64_t>> places_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead::client_internal

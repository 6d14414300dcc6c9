#ifndef BULKHEAD_CLIENT_CPP_INTERNAL_INCARNATION_H_
#define BULKHEAD_CLIENT_CPP_INTERNAL_INCARNATION_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace bulkhead::client_internal {

// Tells which of two consumers of one name is the newer one. Thread-safe.
class Incarnations {
 public:
  // `wall_ns`, the wall clock, so that other processes' come in their order; grows from call to
  // call, also when somebody sets the clock back.
  uint64_t Next(int64_t wall_ns) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace bulkhead::client_internal

#endif  // BULKHEAD_CLIENT_CPP_INTERNAL_INCARNATION_H_

#pragma once

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace bulkhead::client_internal {

// When a consumer was made; see Open in loader.proto.
struct Incarnation {
  uint64_t wall_ns = 0;
  std::string machine_boot;  // 16 bytes; empty: unknown
  uint64_t since_boot_ns = 0;

  // By this machine's clocks. A container has those of its host, as long as it has no time
  // namespace of its own (docs/semantics.md).
  static Incarnation Now();
};

// Tells which of two consumers of one name is the newer one. Thread-safe.
class Incarnations {
 public:
  // `now`, so that other processes' come in their order; grows from call to call, also when
  // somebody sets the wall clock back.
  Incarnation Next(Incarnation now) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  uint64_t last_wall_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_since_boot_ns_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace bulkhead::client_internal

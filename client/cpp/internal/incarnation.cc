#include "client/cpp/internal/incarnation.h"

#include <algorithm>

namespace bulkhead::client_internal {

uint64_t Incarnations::Next(int64_t wall_ns) {
  absl::MutexLock lock(&mutex_);
  last_ = std::max(last_ + 1, static_cast<uint64_t>(std::max<int64_t>(wall_ns, 0)));
  return last_;
}

}  // namespace bulkhead::client_internal

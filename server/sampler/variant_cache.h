#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace bulkhead {

// The tables of the two variants (usually epochs) that were used last: a stream works on one epoch,
// and around its end on two. `Variant` must be default-constructible and comparable. Thread-safe;
// the first caller builds the table while others wait for it.
template <typename Table, typename Variant = uint64_t>
class VariantCache {
 public:
  // The table of `variant`; `make(variant)` returns a std::unique_ptr<Table> if there is none yet.
  template <typename Make>
  std::shared_ptr<const Table> Get(Variant variant, const Make& make) {
    absl::MutexLock lock(&mutex_);
    if (older_.table != nullptr && older_.variant == variant) std::swap(newer_, older_);
    if (newer_.table == nullptr || newer_.variant != variant) {
      older_ = std::move(newer_);
      newer_ = {variant, make(variant)};
    }
    return newer_.table;
  }

 private:
  struct Entry {
    Variant variant{};
    std::shared_ptr<const Table> table;
  };
  absl::Mutex mutex_;
  Entry newer_ ABSL_GUARDED_BY(mutex_);
  Entry older_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead

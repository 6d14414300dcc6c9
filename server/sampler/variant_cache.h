#ifndef BULKHEAD_SERVER_SAMPLER_VARIANT_CACHE_H_
#define BULKHEAD_SERVER_SAMPLER_VARIANT_CACHE_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace bulkhead {

// The tables of the last two variants (usually epochs) that were asked for: a stream works on one
// epoch, and around its end on two. Thread-safe; whoever asks first builds the table while others
// wait for it.
template <typename Table>
class VariantCache {
 public:
  // The table of `variant`; `make(variant)` gives a std::unique_ptr<Table> when it is not there.
  template <typename Make>
  std::shared_ptr<const Table> Get(uint64_t variant, const Make& make) {
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
    uint64_t variant = 0;
    std::shared_ptr<const Table> table;
  };
  absl::Mutex mutex_;
  Entry newer_ ABSL_GUARDED_BY(mutex_);
  Entry older_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SAMPLER_VARIANT_CACHE_H_

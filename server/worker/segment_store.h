#ifndef BULKHEAD_SERVER_WORKER_SEGMENT_STORE_H_
#define BULKHEAD_SERVER_WORKER_SEGMENT_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/base/value_store.h"
#include "server/cache/segment.h"

namespace bulkhead {

// What a worker knows of what is kept: the segments of one of the service's caches, of which it is
// told while it lives. It writes to one of them. Thread-safe; many threads find at once.
class SegmentStore final : public ValueStore {
 public:
  // `on_full` is called, once for each segment that it was given for writing, by the thread that
  // found no room.
  explicit SegmentStore(std::function<void()> on_full) : on_full_(std::move(on_full)) {}

  // DATA_LOSS when `fd` holds no segment. The one for writing takes the place of the one before.
  absl::Status AddSegment(int fd, bool writable);

  bool Find(const StoreKey& key, std::string& value) override;
  bool HasRoom() override { return has_room_.load(std::memory_order_relaxed); }
  bool Add(const StoreKey& key, absl::string_view value) override;

 private:
  const std::function<void()> on_full_;
  std::atomic<bool> has_room_ = false;
  absl::Mutex segments_mutex_;
  // The newest last; one that was written to stays.
  std::vector<Segment> segments_ ABSL_GUARDED_BY(segments_mutex_);
  absl::Mutex writer_mutex_;
  std::optional<Segment> writer_ ABSL_GUARDED_BY(writer_mutex_);
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_WORKER_SEGMENT_STORE_H_

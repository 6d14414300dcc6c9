#ifndef BULKHEAD_SERVER_WORKER_SEEK_CACHE_H_
#define BULKHEAD_SERVER_WORKER_SEEK_CACHE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/cache/segment.h"
#include "server/image/jpeg/seek_store.h"

namespace bulkhead {

// The seek entries that a worker knows: segments of the service's cache, to which it is told to add
// while it lives. It writes to one of them. Thread-safe; many threads find at once.
class SeekCache final : public jpeg::SeekStore {
 public:
  // `on_full` is called, once for each segment that it was given for writing, by the thread that
  // found no room.
  explicit SeekCache(std::function<void()> on_full) : on_full_(std::move(on_full)) {}

  // DATA_LOSS when `fd` holds no segment. The one for writing takes the place of the one before.
  absl::Status AddSegment(int fd, bool writable);

  bool Find(const jpeg::SeekKey& key, std::string& entries) override;
  bool HasRoom() override { return has_room_.load(std::memory_order_relaxed); }
  void Add(const jpeg::SeekKey& key, absl::string_view entries) override;

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

#endif  // BULKHEAD_SERVER_WORKER_SEEK_CACHE_H_

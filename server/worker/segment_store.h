#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/base/value_store.h"
#include "server/cache/segment.h"

namespace bulkhead {

// One cache as a worker sees it: the segments that it gets while it runs, one of which it writes.
// Thread-safe; many threads may Find at once.
class SegmentStore final : public ValueStore {
 public:
  // `on_full` is called once per writable segment, by the thread that found no room; `before_add`
  // before each Add, where it may call StopWriting.
  explicit SegmentStore(
      std::function<void()> on_full, std::function<void()> before_add = [] {})
      : on_full_(std::move(on_full)), before_add_(std::move(before_add)) {}

  // DATA_LOSS if `fd` holds no segment. A writable one replaces the previous writable one.
  absl::Status AddSegment(int fd, bool writable);

  // Adds nothing more until the next writable segment.
  void StopWriting();

  bool Has(const StoreKey& key) override {
    return FindIn(key, [&](const Segment& segment) { return segment.Has(key); });
  }
  void Expect(const StoreKey& key) override {
    FindIn(key, [&](const Segment& segment) { return segment.Expect(key); });
  }
  void Warm(const StoreKey& key) override {
    FindIn(key, [&](const Segment& segment) { return segment.Warm(key); });
  }
  bool Find(const StoreKey& key, std::string& value) override {
    return FindIn(key, [&](const Segment& segment) { return segment.Find(key, value); });
  }
  std::optional<absl::string_view> FindPart(const StoreKey& key, size_t head_bytes,
                                            ChoosePart choose, std::string& buffer) override;
  bool HasRoom() override { return has_room_.load(std::memory_order_relaxed); }
  // Waits up to kPatience for a writable segment: the first one, or the one after a full one.
  bool AwaitRoom() override;
  bool Add(const StoreKey& key, absl::string_view value) override;

 private:
  static constexpr absl::Duration kPatience = absl::Seconds(5);

  // Calls `find` with each segment until it returns true: first with the one where something of
  // that key was found last, then from the newest on. Whether it did.
  bool FindIn(const StoreKey& key, absl::FunctionRef<bool(const Segment&)> find);

  // With fewer segments all are looked through.
  static constexpr size_t kFewSegments = 4;
  // By the last bits of a key. A large cache has so many values.
  static constexpr size_t kHints = size_t{1} << 18;

  const std::function<void()> on_full_;
  const std::function<void()> before_add_;
  std::atomic<bool> has_room_ = false;
  absl::Mutex segments_mutex_;
  // Newest last, including formerly writable ones.
  std::vector<Segment> segments_ ABSL_GUARDED_BY(segments_mutex_);
  // Where something was found last: the number of the segment, from 1; 0: nowhere. Empty while
  // there are few segments. The elements are written by readers.
  std::vector<std::atomic<uint8_t>> hints_ ABSL_GUARDED_BY(segments_mutex_);
  absl::Mutex writer_mutex_;
  std::optional<Segment> writer_ ABSL_GUARDED_BY(writer_mutex_);
  // Waited in vain since the last writable segment.
  bool gave_up_ ABSL_GUARDED_BY(writer_mutex_) = false;
};

}  // namespace bulkhead

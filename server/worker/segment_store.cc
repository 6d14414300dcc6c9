#include "server/worker/segment_store.h"

#include <limits>
#include <utility>

#include "server/base/error.h"
#include "server/os/monotonic_wait.h"

namespace bulkhead {

absl::Status SegmentStore::AddSegment(int fd, bool writable) {
  // The worker also reads the segment that it writes.
  BULKHEAD_ASSIGN_OR_RETURN(auto reading, Segment::OpenForReading(fd));
  std::optional<Segment> writing;
  if (writable) {
    BULKHEAD_ASSIGN_OR_RETURN(writing, Segment::OpenForWriting(fd));
  }
  {
    absl::MutexLock lock(&segments_mutex_);
    segments_.push_back(std::move(reading));
    if (segments_.size() > kFewSegments && hints_.empty()) {
      hints_ = std::vector<std::atomic<uint8_t>>(kHints);
    }
  }
  if (!writing.has_value()) return absl::OkStatus();
  absl::MutexLock lock(&writer_mutex_);
  has_room_ = !writing->full();
  writer_ = std::move(writing);
  gave_up_ = false;
  return absl::OkStatus();
}

bool SegmentStore::FindIn(const StoreKey& key, absl::FunctionRef<bool(const Segment&)> find) {
  absl::ReaderMutexLock lock(&segments_mutex_);
  std::atomic<uint8_t>* const hint =
      hints_.empty() ? nullptr : &hints_[key.words[0] % hints_.size()];
  const size_t hinted = hint == nullptr ? 0 : hint->load(std::memory_order_relaxed);
  if (hinted > 0 && find(segments_[hinted - 1])) return true;
  for (size_t number = segments_.size(); number > 0; --number) {
    if (number == hinted || !find(segments_[number - 1])) continue;
    if (hint != nullptr && number <= std::numeric_limits<uint8_t>::max()) {
      hint->store(static_cast<uint8_t>(number), std::memory_order_relaxed);
    }
    return true;
  }
  return false;
}

std::optional<absl::string_view> SegmentStore::FindPart(const StoreKey& key, size_t head_bytes,
                                                        ChoosePart choose, std::string& buffer) {
  std::optional<absl::string_view> part;
  FindIn(key, [&](const Segment& segment) {
    part = segment.FindPart(key, head_bytes, choose, buffer);
    return part.has_value();
  });
  return part;
}

bool SegmentStore::AwaitRoom() {
  absl::MutexLock lock(&writer_mutex_);
  if (has_room_ || gave_up_) return has_room_;
  gave_up_ = !AwaitFor(
      writer_mutex_, [this] { return has_room_.load(); }, kPatience);
  return has_room_;
}

void SegmentStore::StopWriting() {
  absl::MutexLock lock(&writer_mutex_);
  writer_.reset();
  has_room_ = false;
}

bool SegmentStore::Add(const StoreKey& key, absl::string_view value) {
  before_add_();
  {
    absl::MutexLock lock(&writer_mutex_);
    if (!writer_.has_value()) return false;
    if (writer_->Add(key, value)) return true;
    if (!writer_->full()) return false;
    writer_.reset();
    has_room_ = false;
  }
  on_full_();
  return false;
}

}  // namespace bulkhead

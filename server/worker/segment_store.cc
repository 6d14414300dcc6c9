#include "server/worker/segment_store.h"

#include <algorithm>
#include <utility>

#include "server/os/monotonic_wait.h"

namespace bulkhead {

absl::Status SegmentStore::AddSegment(int fd, bool writable) {
  // The worker also reads the segment that it writes.
  auto reading = Segment::OpenForReading(fd);
  if (!reading.ok()) return reading.status();
  std::optional<Segment> writing;
  if (writable) {
    auto opened = Segment::OpenForWriting(fd);
    if (!opened.ok()) return opened.status();
    writing.emplace(*std::move(opened));
  }
  {
    absl::MutexLock lock(&segments_mutex_);
    segments_.push_back(*std::move(reading));
  }
  if (!writing.has_value()) return absl::OkStatus();
  absl::MutexLock lock(&writer_mutex_);
  has_room_ = !writing->full();
  writer_ = std::move(writing);
  gave_up_ = false;
  return absl::OkStatus();
}

bool SegmentStore::Has(const StoreKey& key) {
  absl::ReaderMutexLock lock(&segments_mutex_);
  return std::any_of(segments_.rbegin(), segments_.rend(),
                     [&](const Segment& segment) { return segment.Has(key); });
}

bool SegmentStore::Find(const StoreKey& key, std::string& value) {
  absl::ReaderMutexLock lock(&segments_mutex_);
  for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment) {
    if (segment->Find(key, value)) return true;
  }
  return false;
}

std::optional<absl::string_view> SegmentStore::FindPart(const StoreKey& key, size_t head_bytes,
                                                        ChoosePart choose, std::string& buffer) {
  absl::ReaderMutexLock lock(&segments_mutex_);
  for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment) {
    const auto part = segment->FindPart(key, head_bytes, choose, buffer);
    if (part.has_value()) return part;
  }
  return std::nullopt;
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

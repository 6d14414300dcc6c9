#include "server/worker/seek_cache.h"

#include <utility>

namespace bulkhead {
namespace {

CacheKey KeyOf(const jpeg::SeekKey& key) {
  return {{key.record, uint64_t{key.crc32c} << 32 | key.bytes}};
}

}  // namespace

absl::Status SeekCache::AddSegment(int fd, bool writable) {
  // What this worker writes it reads like any other.
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
  return absl::OkStatus();
}

bool SeekCache::Find(const jpeg::SeekKey& key, std::string& entries) {
  absl::ReaderMutexLock lock(&segments_mutex_);
  for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment) {
    if (segment->Find(KeyOf(key), entries)) return true;
  }
  return false;
}

void SeekCache::Add(const jpeg::SeekKey& key, absl::string_view entries) {
  bool full = false;
  {
    absl::MutexLock lock(&writer_mutex_);
    if (!writer_.has_value()) return;
    full = !writer_->Add(KeyOf(key), entries);
    if (full) {
      writer_.reset();
      has_room_ = false;
    }
  }
  if (full) on_full_();
}

}  // namespace bulkhead

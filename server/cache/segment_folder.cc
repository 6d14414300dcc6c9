#include "server/cache/segment_folder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/cache/segment.h"
#include "server/os/filesystem.h"
#include "server/os/random_name.h"

namespace bulkhead {
namespace {

constexpr char kSuffix[] = ".segment";

}  // namespace

std::unique_ptr<SegmentFolder> SegmentFolder::Open(Config config) {
  std::unique_ptr<SegmentFolder> folder(new SegmentFolder(std::move(config)));
  folder->FindSegments();
  return folder;
}

void SegmentFolder::FindSegments() {
  struct Found {
    std::string path;
    int64_t mtime_ns = 0;
  };
  std::vector<Found> found;
  for (const std::string& name : NamesIn(config_.folder)) {
    if (!absl::StartsWith(name, config_.prefix + "-") || !absl::EndsWith(name, kSuffix)) continue;
    const std::string path = absl::StrCat(config_.folder, "/", name);
    if (const auto info = StatFile(path); info.ok() && info->is_regular) {
      found.push_back({path, info->mtime_ns});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.mtime_ns < b.mtime_ns; });
  for (const Found& file : found) {
    auto segment = std::make_unique<Segment>();
    segment->path = file.path;
    segment->earlier = true;
    auto reading = OpenFile(file.path, /*writable=*/false);
    if (!reading.ok()) continue;
    segment->reading = *std::move(reading);
    if (!bulkhead::Segment::OpenForReading(segment->reading.get()).ok()) {
      RemoveFile(file.path);
      continue;
    }
    segment->bytes = FileSize(segment->reading.get()).value_or(0);
    segment->id = next_id_++;
    segments_.push_back(std::move(segment));
  }
}

uint64_t SegmentFolder::TotalBytes() const {
  uint64_t sum = 0;
  for (const auto& segment : segments_) sum += segment->bytes;
  return sum;
}

bool SegmentFolder::TakeLock(Segment& segment) {
  if (segment.writing) return true;
  auto fd = OpenFile(segment.path, /*writable=*/true);
  if (!fd.ok() || !TryLockFile(fd->get())) return false;
  segment.writing = *std::move(fd);
  return true;
}

SegmentFolder::Segment* SegmentFolder::FindWithRoom() {
  for (const auto& segment : segments_) {
    if (segment->lent || bulkhead::Segment::IsFull(segment->reading.get())) continue;
    if (TakeLock(*segment)) return segment.get();
  }
  return nullptr;
}

bool SegmentFolder::RemoveOldest() {
  const auto oldest = std::find_if(segments_.begin(), segments_.end(), [](const auto& segment) {
    return segment->earlier && !segment->lent && TakeLock(*segment);
  });
  if (oldest == segments_.end()) return false;
  RemoveFile((*oldest)->path);
  segments_.erase(oldest);
  return true;
}

absl::StatusOr<SegmentFolder::Segment*> SegmentFolder::Make() {
  if (segments_.size() >= 2 * kManySegments && !RemoveOldest()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", segments_.size(), " segments in ", config_.folder));
  }
  const auto room = [this] {
    return config_.most_bytes - std::min(config_.most_bytes, TotalBytes());
  };
  while (room() < config_.first_bytes) {
    if (!RemoveOldest()) {
      return absl::ResourceExhaustedError(absl::StrCat("the segments in ", config_.folder, " have ",
                                                       TotalBytes(), " of ", config_.most_bytes,
                                                       " bytes"));
    }
  }
  const uint64_t largest =
      std::max(config_.largest_bytes,
               std::min(config_.most_bytes / kManySegments, bulkhead::Segment::kMostBytes));
  const uint64_t bytes = std::min(std::clamp(TotalBytes(), config_.first_bytes, largest), room());
  auto segment = std::make_unique<Segment>();
  auto file = CreateUnnamedFile(config_.folder);
  if (!file.ok()) return file.status();
  absl::Status made = bulkhead::Segment::Format(file->get(), bytes);
  if (made.ok() && !TryLockFile(file->get())) {
    made = absl::UnavailableError("a new segment cannot be locked");
  }
  segment->path = absl::StrCat(config_.folder, "/", config_.prefix, "-", RandomName(8), kSuffix);
  if (made.ok()) made = NameFile(file->get(), segment->path);
  if (!made.ok()) return made;
  segment->writing = *std::move(file);
  BULKHEAD_ASSIGN_OR_RETURN(segment->reading, OpenFile(segment->path, /*writable=*/false));
  segment->bytes = bytes;
  segment->id = next_id_++;
  segments_.push_back(std::move(segment));
  return segments_.back().get();
}

absl::StatusOr<const SegmentFolder::Segment*> SegmentFolder::Lend() {
  Segment* segment = FindWithRoom();
  if (segment == nullptr) {
    auto made = Make();
    if (!made.ok()) return made.status();
    segment = *made;
  }
  segment->lent = true;
  return segment;
}

void SegmentFolder::GiveBack(uint64_t id) {
  for (const auto& segment : segments_) {
    if (segment->id == id) segment->lent = false;
  }
}

}  // namespace bulkhead

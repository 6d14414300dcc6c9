#include "server/cache/segment_folder.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/cache/segment.h"
#include "server/os/files/filesystem.h"
#include "server/os/files/random_name.h"

namespace bulkhead {
namespace {

constexpr char kSuffix[] = ".segment";
constexpr size_t kRandomBytes = 8;

// The domain in "PREFIX-DOMAIN-RANDOM.segment". Absent for other names, including older versions'
// without a domain.
std::optional<std::string> DomainOf(const std::string& name, const std::string& prefix) {
  const std::vector<std::string> parts =
      absl::StrSplit(absl::StripSuffix(name, kSuffix), absl::MaxSplits('-', 2));
  if (parts.size() != 3 || parts[0] != prefix || parts[1].empty()) return std::nullopt;
  return parts[1];
}

}  // namespace

std::unique_ptr<SegmentFolder> SegmentFolder::Open(Config config) {
  std::unique_ptr<SegmentFolder> folder(new SegmentFolder(std::move(config)));
  folder->FindSegments(/*earlier=*/true);
  return folder;
}

void SegmentFolder::FindSegments(bool earlier) {
  struct Found {
    std::string path;
    std::string domain;
    int64_t mtime_ns = 0;
  };
  // Others may have removed some.
  std::erase_if(segments_, [](const auto& segment) {
    return !segment->lent && !IsFileAt(segment->reading.get(), segment->path);
  });
  std::vector<Found> found;
  for (const std::string& name : NamesIn(config_.folder)) {
    if (!absl::StartsWith(name, config_.prefix + "-") || !absl::EndsWith(name, kSuffix)) continue;
    const std::string path = absl::StrCat(config_.folder, "/", name);
    if (IsKnown(path)) continue;
    const auto domain = DomainOf(name, config_.prefix);
    const auto info = StatFile(path);
    if (!domain.has_value()) {
      RemoveFile(path);
    } else if (info.ok()) {
      found.push_back({path, *domain, info->mtime_ns});
    }
  }
  std::ranges::sort(found, {}, &Found::mtime_ns);
  for (const Found& file : found) Adopt(file.path, file.domain, earlier);
}

bool SegmentFolder::IsKnown(const std::string& path) const {
  return std::ranges::any_of(segments_, [&](const auto& segment) { return segment->path == path; });
}

void SegmentFolder::Adopt(const std::string& path, const std::string& domain, bool earlier) {
  auto reading = OpenOwnFile(path, /*writable=*/false);
  if (!reading.ok()) {
    if (earlier && !absl::IsNotFound(reading.status())) refused_.push_back(reading.status());
    return;
  }
  if (!bulkhead::Segment::OpenForReading(reading->get()).ok()) {
    RemoveFile(path);
    return;
  }
  auto segment = std::make_shared<Segment>();
  segment->path = path;
  segment->domain = domain;
  segment->earlier = earlier;
  segment->reading = *std::move(reading);
  segment->bytes = FileSize(segment->reading.get()).value_or(0);
  segment->id = next_id_++;
  segments_.push_back(std::move(segment));
}

uint64_t SegmentFolder::TotalBytes() const {
  uint64_t sum = 0;
  for (const auto& segment : segments_) sum += segment->bytes;
  return sum;
}

bool SegmentFolder::TakeLock(Segment& segment) {
  if (segment.writing) return true;
  auto fd = OpenOwnFile(segment.path, /*writable=*/true);
  // In this order: another service may just have removed it.
  if (!fd.ok() || !TryLockFile(fd->get()) || !IsFileAt(segment.reading.get(), segment.path)) {
    return false;
  }
  segment.writing = *std::move(fd);
  return true;
}

std::shared_ptr<SegmentFolder::Segment> SegmentFolder::FindWithRoom(const std::string& domain) {
  for (const auto& segment : segments_) {
    if (segment->domain != domain || segment->lent) continue;
    if (bulkhead::Segment::IsFull(segment->reading.get())) continue;
    if (TakeLock(*segment)) return segment;
  }
  return nullptr;
}

bool SegmentFolder::HasWriter(const std::string& domain) const {
  return std::ranges::any_of(
      segments_, [&](const auto& segment) { return segment->lent && segment->domain == domain; });
}

bool SegmentFolder::RemoveOldest(const std::string& domain) {
  const auto find = [&](auto may_go) {
    return std::ranges::find_if(segments_, [&](const auto& segment) {
      return !segment->lent && may_go(*segment) && TakeLock(*segment);
    });
  };
  auto oldest = find([&](const Segment& segment) {
    return segment.domain != kBuiltIn && segment.domain != domain && !HasWriter(segment.domain);
  });
  if (oldest == segments_.end()) {
    oldest = find([&](const Segment& segment) {
      const bool serves_others = config_.builtin_serves_all && segment.domain == kBuiltIn;
      return segment.earlier && (segment.domain == domain || !serves_others);
    });
  }
  if (oldest == segments_.end()) return false;
  // What was left by earlier runs frees the disk at once, also where others still read it: to them
  // it is as damaged.
  if ((*oldest)->earlier) (void)!ftruncate((*oldest)->writing.get(), 0);
  RemoveFile((*oldest)->path);
  segments_.erase(oldest);
  return true;
}

absl::Status SegmentFolder::MakeRoom(const std::string& domain) {
  if (segments_.size() >= 2 * kManySegments && !RemoveOldest(domain)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", segments_.size(), " segments in ", config_.folder));
  }
  while (TotalBytes() + config_.first_bytes > config_.most_bytes) {
    if (RemoveOldest(domain)) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("the segments in ", config_.folder, " have ", FormatBytes(TotalBytes()),
                     ", and another one of ", FormatBytes(config_.first_bytes),
                     " would exceed the limit of ", FormatBytes(config_.most_bytes)));
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> SegmentFolder::CreateFile() {
  auto file = CreateUnnamedFile(config_.folder);
  if (!absl::IsNotFound(file.status())) return file;
  // The folder was removed. Lent segments stay with their users; the others are closed, which frees
  // their blocks.
  std::erase_if(segments_, [](const auto& segment) { return !segment->lent; });
  BULKHEAD_RETURN_IF_ERROR(MakeDirectories(config_.folder));
  BULKHEAD_RETURN_IF_ERROR(TakeOwnFolder(config_.folder));
  return CreateUnnamedFile(config_.folder);
}

absl::StatusOr<std::shared_ptr<SegmentFolder::Segment>> SegmentFolder::Make(
    const std::string& domain) {
  FindSegments(/*earlier=*/false);  // of other services
  BULKHEAD_RETURN_IF_ERROR(MakeRoom(domain));
  const uint64_t largest =
      std::max(config_.largest_bytes,
               std::min(config_.most_bytes / kManySegments, bulkhead::Segment::kMostBytes));
  uint64_t filled = 0;  // many workers that keep little shall take little of the disk
  for (const auto& segment : segments_) {
    if (segment->domain == domain && bulkhead::Segment::IsFull(segment->reading.get())) {
      filled += segment->bytes;
    }
  }
  const uint64_t bytes =
      std::min(std::clamp(filled, config_.first_bytes, largest), config_.most_bytes - TotalBytes());
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd file, CreateFile());
  BULKHEAD_RETURN_IF_ERROR(bulkhead::Segment::Format(file.get(), bytes));
  if (!TryLockFile(file.get())) {
    return absl::UnavailableError("a new segment cannot be locked");
  }
  auto segment = std::make_shared<Segment>();
  segment->path = absl::StrCat(config_.folder, "/", config_.prefix, "-", domain, "-",
                               RandomName(kRandomBytes), kSuffix);
  segment->domain = domain;
  BULKHEAD_RETURN_IF_ERROR(NameFile(file.get(), segment->path));
  segment->writing = std::move(file);
  BULKHEAD_ASSIGN_OR_RETURN(segment->reading, OpenOwnFile(segment->path, /*writable=*/false));
  segment->bytes = bytes;
  segment->id = next_id_++;
  segments_.push_back(segment);
  return segment;
}

absl::StatusOr<std::shared_ptr<const SegmentFolder::Segment>> SegmentFolder::Lend(
    const std::string& domain) {
  std::shared_ptr<Segment> segment = FindWithRoom(domain);
  if (segment == nullptr) {
    BULKHEAD_ASSIGN_OR_RETURN(segment, Make(domain));
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

#include "server/data/index_folder.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/os/files/filesystem.h"
#include "server/os/files/storage_watch.h"

namespace bulkhead {
namespace {

// Temporary files left by services that ended while publishing.
constexpr absl::string_view kUnfinished = ".tmp";
constexpr absl::Duration kUnfinishedFor = absl::Hours(1);

bool HoldsIndex(absl::string_view name) {
  return absl::EndsWith(name, ".index") || absl::EndsWith(name, ".selection");
}

bool IsUnfinished(absl::string_view name, int64_t mtime_ns) {
  return absl::EndsWith(name, kUnfinished) &&
         (absl::StrContains(name, ".index.") || absl::StrContains(name, ".selection.")) &&
         absl::Now() - absl::FromUnixNanos(mtime_ns) > kUnfinishedFor;
}

}  // namespace

std::optional<IndexHeader> IndexFolder::Find(const std::string& path) {
  if (IsDamaged(path)) return std::nullopt;
  const StorageCall call(path);  // every step may block on the disk
  if (!call.status().ok()) return std::nullopt;
  const absl::StatusOr<UniqueFd> file = OpenOwnFile(path, /*writable=*/false);
  if (absl::IsPermissionDenied(file.status())) {
    spdlog::warn("{}; it is ignored and built again", std::string(file.status().message()));
  }
  if (!file.ok()) return std::nullopt;
  const auto prefix = ReadPrefix(file->get(), IndexHeader::kBytes);
  const auto header = prefix.ok() ? IndexHeader::Parse(*prefix) : prefix.status();
  const auto size = FileSize(file->get());
  const bool whole =
      header.ok() && size.ok() && *size - IndexHeader::kBytes == header->payload_bytes;
  if (!whole) return std::nullopt;
  NoteUse(file->get());
  return *header;
}

absl::StatusOr<UniqueFd> IndexFolder::Create() const {
  absl::StatusOr<UniqueFd> file = CreateUnnamedFile(config_.path);
  if (!absl::IsNotFound(file.status())) return file;
  spdlog::warn("the cache folder {} is gone; it is made again", config_.path);
  BULKHEAD_RETURN_IF_ERROR(MakeDirectories(config_.path));
  BULKHEAD_RETURN_IF_ERROR(TakeOwnFolder(config_.path));
  return CreateUnnamedFile(config_.path);
}

absl::Status IndexFolder::Publish(int fd, const std::string& path) {
  absl::Status published = PublishFile(fd, path);
  if (absl::IsNotFound(published)) {  // the folder was removed meanwhile
    BULKHEAD_RETURN_IF_ERROR(Create().status());
    published = PublishFile(fd, path);
  }
  absl::MutexLock lock(&mutex_);
  if (published.ok()) damaged_.erase(path);
  return published;
}

void IndexFolder::NoteDamaged(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  if (!path.empty()) damaged_.insert(path);
}

bool IndexFolder::IsDamaged(const std::string& path) const {
  absl::MutexLock lock(&mutex_);
  return damaged_.count(path) > 0;
}

bool IndexFolder::IsOpen(const std::string& path) const {
  const auto found = open_.find(path);
  return found != open_.end() && !found->second.expired();
}

bool IndexFolder::MayOpen(size_t more) {
  absl::MutexLock lock(&mutex_);
  for (auto entry = open_.begin(); entry != open_.end();) {
    entry = entry->second.expired() ? open_.erase(entry) : std::next(entry);
  }
  return open_.size() + more <= config_.most_open;
}

absl::StatusOr<std::vector<SharedFd>> IndexFolder::Open(const std::vector<std::string*>& paths) {
  if (!MayOpen(paths.size())) {
    spdlog::warn(
        "{} record indexes are not kept open: this process may have {} files open, half of them "
        "for indexes. If the cache folder vanishes, their streams fail. Raise the limit "
        "(LimitNOFILE, ulimit -n)",
        paths.size(), 2 * config_.most_open);
    return std::vector<SharedFd>();
  }
  std::vector<SharedFd> files;
  for (const std::string* path : paths) {
    const StorageCall call(*path);
    if (!call.status().ok()) return call.status();
    SharedFd file;
    {
      absl::MutexLock lock(&mutex_);
      file = open_[*path].lock();
    }
    if (file == nullptr || !IsFileAt(file->get(), *path)) {
      absl::StatusOr<UniqueFd> opened = OpenOwnFile(*path, /*writable=*/false);
      if (!opened.ok()) {
        return MakeError(absl::StatusCode::kDataLoss, reason::kIndexDamaged,
                         absl::StrCat("a record index cannot be opened: ",
                                      std::string(opened.status().message()),
                                      "; open the stream again to rebuild it"));
      }
      file = std::make_shared<const UniqueFd>(*std::move(opened));
      absl::MutexLock lock(&mutex_);
      open_[*path] = file;
    }
    files.push_back(std::move(file));
  }
  return files;
}

void IndexFolder::Collect(const std::set<std::string>& needed) {
  const StorageCall call(config_.path);
  if (config_.most_bytes == 0 || !call.status().ok()) return;
  struct Found {
    std::string path;
    FileInfo info;
  };
  std::vector<Found> found;
  uint64_t bytes = 0;
  for (const std::string& name : NamesIn(config_.path)) {
    const std::string path = absl::StrCat(config_.path, "/", name);
    const auto info = StatFile(path);
    if (!info.ok() || !info->is_regular) continue;
    if (IsUnfinished(name, info->mtime_ns)) RemoveFile(path);
    if (!HoldsIndex(name)) continue;
    bytes += info->size_bytes;
    found.push_back({path, *info});
  }
  std::ranges::sort(found, {}, [](const Found& file) { return file.info.mtime_ns; });
  for (const Found& file : found) {
    if (bytes <= config_.most_bytes) return;
    {
      absl::MutexLock lock(&mutex_);
      if (needed.count(file.path) > 0 || IsOpen(file.path)) continue;
    }
    RemoveFile(file.path);
    bytes -= file.info.size_bytes;
    spdlog::info("{} ({}) is removed: the indexes take more than {}, a quarter of --cache-bytes",
                 file.path, FormatBytes(file.info.size_bytes), FormatBytes(config_.most_bytes));
  }
}

}  // namespace bulkhead

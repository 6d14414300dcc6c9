#include "server/fetch/object_folder.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/os/event_loop.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {
namespace {

// How long a count is good, since other services write as well.
constexpr int64_t kMeasureNs = int64_t{10} * 1'000'000'000;
constexpr uint64_t kMostCounted = 1'000'000;
constexpr uint64_t kReadAheadBytes = uint64_t{256} << 20;

}  // namespace

ObjectFolder::ObjectFolder(std::string path, uint64_t most_bytes, uint64_t kept_free)
    : path_(std::move(path)), most_bytes_(most_bytes), kept_free_(kept_free) {
  Measure();
}

uint64_t ObjectFolder::KeptFree(const std::string& path) {
  std::error_code error;
  const std::filesystem::space_info disk = std::filesystem::space(path, error);
  return error ? 0 : std::min<uint64_t>(kReadAheadBytes, disk.capacity / 10);
}

absl::StatusOr<ObjectBlocks*> ObjectFolder::Open(const std::string& key,
                                                 const ObjectBlocks::Object& object) {
  const std::string path = absl::StrCat(path_, "/", key);
  const auto found = open_.find(key);
  if (found != open_.end() && found->second.IsAt(path)) return &found->second;
  // Another service may remove the files before they are marked.
  for (int attempt = 0; attempt < 3; ++attempt) {
    absl::StatusOr<ObjectBlocks> blocks = ObjectBlocks::OpenForWriting(path, object);
    if (absl::IsDataLoss(blocks.status()) || absl::IsNotFound(blocks.status())) {
      RemoveFile(path + ".blocks");
      RemoveFile(path + ".data");
      continue;
    }
    if (!blocks.ok()) return blocks.status();
    if (!blocks->Share() || !blocks->IsAt(path)) continue;
    blocks->NoteUse();
    // Twice, if it was measured before; that passes.
    used_bytes_ += blocks->table_bytes();
    return &open_.insert_or_assign(key, *std::move(blocks)).first->second;
  }
  return absl::UnavailableError(
      absl::StrCat("the files of ", path, " are removed again and again"));
}

void ObjectFolder::Close(const std::string& key) {
  if (open_.erase(key) > 0) all_in_use_ = false;
}

bool ObjectFolder::Reserve(uint64_t bytes) {
  const auto fits = [&] { return used_bytes_ + reserved_bytes_ + bytes <= room_bytes_; };
  if (MonotonicNanos() - measured_ns_ >= kMeasureNs) Measure();
  while (!fits()) {
    all_in_use_ = all_in_use_ || !RemoveOne();
    if (all_in_use_) return false;
  }
  reserved_bytes_ += bytes;
  return true;
}

void ObjectFolder::Measure() {
  measured_ns_ = MonotonicNanos();
  all_in_use_ = false;
  used_bytes_ = SizeOfTree(path_, kMostCounted).bytes;
  std::error_code error;
  const std::filesystem::space_info disk = std::filesystem::space(path_, error);
  const uint64_t free = error || disk.available < kept_free_ ? 0 : disk.available - kept_free_;
  room_bytes_ = std::min(most_bytes_, used_bytes_ + free);
}

bool ObjectFolder::Remove(const std::string& key) {
  const std::string path = absl::StrCat(path_, "/", key);
  // A service may hold the table of objects while its bulkhead-fetch is replaced. One that was not
  // used yet, or whose disk was full, has no blocks.
  std::vector<UniqueFd> locked;
  for (const char* ending : {".blocks", ".table"}) {
    absl::StatusOr<UniqueFd> file = OpenOwnFile(path + ending, /*writable=*/false);
    if (absl::IsNotFound(file.status())) continue;
    if (!file.ok() || !TryLockFile(file->get())) return false;
    locked.push_back(*std::move(file));
  }
  // The table of blocks first: whoever finds it finds the data.
  for (const char* ending : {".blocks", ".data", ".table"}) RemoveFile(path + ending);
  return true;
}

bool ObjectFolder::RemoveOne() {
  std::map<std::string, int64_t> used_ns;  // by key
  for (const std::string& name : NamesIn(path_)) {
    const size_t dot = name.rfind('.');
    const std::string key = name.substr(0, dot);
    if (dot == name.npos || (name.substr(dot) != ".blocks" && name.substr(dot) != ".table") ||
        open_.count(key) > 0) {
      continue;
    }
    if (const auto info = StatFile(absl::StrCat(path_, "/", name)); info.ok()) {
      int64_t& last_ns = used_ns[key];
      last_ns = std::max(last_ns, info->mtime_ns);
    }
  }
  std::set<std::pair<int64_t, std::string>> oldest;
  for (const auto& [key, time] : used_ns) oldest.emplace(time, key);
  for (const auto& [time, key] : oldest) {
    if (!Remove(key)) continue;
    Measure();
    return true;
  }
  return false;
}

}  // namespace bulkhead

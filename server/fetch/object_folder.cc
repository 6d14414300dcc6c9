#include "server/fetch/object_folder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/os/event_loop.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {
namespace {

// How long a count is good, since other services write as well.
constexpr int64_t kMeasureNs = int64_t{10} * 1'000'000'000;
constexpr uint64_t kMostCounted = 1'000'000;

}  // namespace

ObjectFolder::ObjectFolder(std::string path, uint64_t most_bytes)
    : path_(std::move(path)), most_bytes_(most_bytes) {
  Measure();
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

bool ObjectFolder::Reserve(uint64_t bytes) {
  const auto fits = [&] { return used_bytes_ + reserved_bytes_ + bytes <= most_bytes_; };
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
}

bool ObjectFolder::RemoveOne() {
  // By time of use.
  std::vector<std::pair<int64_t, std::string>> objects;
  for (const std::string& name : NamesIn(path_)) {
    if (!absl::EndsWith(name, ".blocks")) continue;
    std::string key = name.substr(0, name.size() - 7);
    if (open_.count(key) > 0) continue;
    const auto info = StatFile(absl::StrCat(path_, "/", name));
    if (info.ok()) objects.emplace_back(info->mtime_ns, std::move(key));
  }
  std::sort(objects.begin(), objects.end());
  for (const auto& [time, key] : objects) {
    const std::string path = absl::StrCat(path_, "/", key);
    const auto table = OpenOwnFile(path + ".blocks", /*writable=*/false);
    if (!table.ok() || !TryLockFile(table->get())) continue;
    // A service may hold the table of objects while its bulkhead-fetch is replaced.
    const auto objects = OpenOwnFile(path + ".table", /*writable=*/false);
    if (objects.ok() && !TryLockFile(objects->get())) continue;
    // The table first: whoever finds it finds the data.
    RemoveFile(path + ".blocks");
    RemoveFile(path + ".data");
    RemoveFile(path + ".table");
    Measure();
    return true;
  }
  return false;
}

}  // namespace bulkhead

#include "server/service/datasets/dataset_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/os/memory/memory_map.h"

namespace bulkhead {
namespace {

constexpr size_t kDigestDigits = 64;  // of a dataset
constexpr size_t kListDigits = 32;

bool IsHex(const std::string& id) {
  return id.find_first_not_of("0123456789abcdef") == std::string::npos;
}

absl::Status Impossible(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kProtocolViolation,
                   absl::StrCat("a part of a dataset: ", what));
}

absl::Status NoRoom(uint64_t bytes, absl::string_view room) {
  return MakeError(absl::StatusCode::kResourceExhausted, reason::kDatasetRefused,
                   absl::StrCat("the dataset takes ", FormatBytes(bytes), ", but ", room,
                                "; let it read large arrays from files (numpy.load with "
                                "mmap_mode), or start bulkheadd with a larger --dataset-bytes"));
}

absl::Status CheckPart(const v1::PutDatasetRequest& part) {
  const std::string& id = part.id();
  if ((id.size() != kDigestDigits && id.size() != kListDigits) || !IsHex(id)) {
    return Impossible("its id is neither a SHA-256 nor 32 hex digits");
  }
  const uint64_t length = part.data().size();
  if (length > DatasetStore::kMostPartBytes) {
    return Impossible(
        absl::StrCat("it has ", length, " bytes, the most are ", DatasetStore::kMostPartBytes));
  }
  if (part.size() == 0 || part.offset() > part.size() || length > part.size() - part.offset()) {
    return Impossible(
        absl::StrCat("it has ", length, " bytes at ", part.offset(), ", of ", part.size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> DigestOf(const DatasetMemory& memory) {
  BULKHEAD_ASSIGN_OR_RETURN(const MemoryMap map,
                            MemoryMap::MapReadOnly(memory.fd->get(), memory.bytes));
  Sha256 hash;
  hash.Update({reinterpret_cast<const char*>(map.data()), memory.bytes});
  return hash.FinishHex();
}

}  // namespace

absl::Status DatasetStore::CheckAllowed() const {
  if (config_.allowed) return absl::OkStatus();
  return MakeError(absl::StatusCode::kPermissionDenied, reason::kDatasetRefused,
                   "this service takes no datasets, which are code of its clients; start bulkheadd "
                   "with --allow-datasets, or leave target out: then the loader starts a service "
                   "of its own");
}

absl::StatusOr<uint64_t> DatasetStore::Put(const v1::PutDatasetRequest& part, int64_t now_ns) {
  BULKHEAD_RETURN_IF_ERROR(CheckAllowed());
  BULKHEAD_RETURN_IF_ERROR(CheckPart(part));
  const std::string& id = part.id();
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(id);
  Kept* kept = found == entries_.end() ? nullptr : &found->second;
  if (kept == nullptr) {
    if (part.data().empty() || part.offset() > 0) return 0;
    BULKHEAD_ASSIGN_OR_RETURN(kept, Begin(id, part.size(), now_ns));
  }
  if (kept->memory->bytes != part.size()) {
    return Impossible(
        absl::StrCat("the whole has ", kept->memory->bytes, " bytes, not ", part.size()));
  }
  kept->used_ns = now_ns;
  const uint64_t end = part.offset() + part.data().size();
  const bool is_list = id.size() == kListDigits;
  if (part.offset() > kept->have || (!is_list && end <= kept->have)) return kept->have;
  BULKHEAD_RETURN_IF_ERROR(WriteMemory(kept->memory->fd->get(), part.offset(), part.data()));
  kept->have = std::max(kept->have, end);
  if (is_list || kept->have < part.size()) {
    kept->whole = is_list;
    return kept->have;
  }
  BULKHEAD_ASSIGN_OR_RETURN(const std::string digest, DigestOf(*kept->memory));
  if (digest != id) {
    entries_.erase(id);
    return Impossible(absl::StrCat("the whole has the SHA-256 ", digest, ", not ", id));
  }
  kept->whole = true;
  return kept->have;
}

absl::StatusOr<std::vector<std::shared_ptr<const DatasetMemory>>> DatasetStore::Find(
    const google::protobuf::RepeatedPtrField<std::string>& ids) {
  std::vector<std::shared_ptr<const DatasetMemory>> found;
  if (ids.empty()) return found;
  BULKHEAD_RETURN_IF_ERROR(CheckAllowed());
  absl::MutexLock lock(&mutex_);
  for (const std::string& id : ids) {
    if (id.empty()) {
      found.push_back(nullptr);
      continue;
    }
    const auto kept = entries_.find(id);
    if (kept == entries_.end() || !kept->second.whole) {
      return MakeError(absl::StatusCode::kFailedPrecondition, reason::kDatasetUnknown,
                       absl::StrCat("this service does not have the dataset ",
                                    Printable(id.substr(0, 8)), "…, or not all of it"));
    }
    found.push_back(kept->second.memory);
  }
  return found;
}

uint64_t DatasetStore::Bytes() const {
  uint64_t bytes = 0;
  for (const auto& [id, kept] : entries_) bytes += kept.memory->bytes;
  return bytes;
}

DatasetStore::Entries::iterator DatasetStore::LeastRecent() {
  auto least = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (it->second.memory.use_count() > 1) continue;
    if (least == entries_.end() || it->second.used_ns < least->second.used_ns) least = it;
  }
  return least;
}

absl::StatusOr<DatasetStore::Kept*> DatasetStore::Begin(const std::string& id, uint64_t bytes,
                                                        int64_t now_ns) {
  if (bytes > config_.most_bytes) {
    return NoRoom(bytes, absl::StrCat("--dataset-bytes is ", FormatBytes(config_.most_bytes)));
  }
  while (Bytes() > config_.most_bytes - bytes || entries_.size() >= kMost) {
    const auto least = LeastRecent();
    if (least == entries_.end()) {
      return NoRoom(bytes, absl::StrCat("others in use take ", FormatBytes(Bytes()), " of ",
                                        "--dataset-bytes ", FormatBytes(config_.most_bytes)));
    }
    entries_.erase(least);
  }
  Kept kept;
  BULKHEAD_ASSIGN_OR_RETURN(kept.claim, config_.admit(bytes));
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd fd, CreateSharedMemory("bulkhead-dataset", bytes));
  kept.memory = std::make_shared<const DatasetMemory>(
      DatasetMemory{std::make_shared<const UniqueFd>(std::move(fd)), bytes});
  kept.used_ns = now_ns;
  return &(entries_[id] = std::move(kept));
}

void DatasetStore::DropUnused(int64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    Kept& kept = it->second;
    if (kept.memory.use_count() > 1) kept.used_ns = std::max(kept.used_ns, now_ns);
    const bool old = now_ns - kept.used_ns >= absl::ToInt64Nanoseconds(kKept);
    it = old ? entries_.erase(it) : std::next(it);
  }
}

}  // namespace bulkhead

#include "server/service/datasets/dataset_store.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/os/files/filesystem.h"
#include "server/os/monotonic_wait.h"
#include "server/service/raw_messages.h"

namespace bulkhead {
namespace {

constexpr size_t kDigestDigits = 64;  // of a dataset
constexpr size_t kListDigits = 32;
// For workers that were ended to be reaped.
constexpr absl::Duration kEndPatience = absl::Seconds(2);

bool IsHex(const std::string& id, size_t digits) {
  return id.size() == digits && id.find_first_not_of("0123456789abcdef") == std::string::npos;
}
bool IsDataset(const std::string& id) { return IsHex(id, kDigestDigits); }
bool IsList(const std::string& id) { return IsHex(id, kListDigits); }

absl::Status Impossible(absl::string_view what) {
  return ProtocolViolation(absl::StrCat("a part of a dataset: ", what));
}

absl::Status NoRoom(uint64_t bytes, absl::string_view room, absl::string_view advice) {
  return MakeError(
      absl::StatusCode::kResourceExhausted, reason::kDatasetRefused,
      absl::StrCat("the dataset takes ", FormatBytes(bytes), ", but ", room, "; ", advice));
}

absl::Status CheckPart(const v1::PutDatasetRequest& part) {
  if (!IsDataset(part.id()) && !IsList(part.id())) {
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

// Of Open: a dataset, the list of its sampler or nothing, and further datasets.
absl::Status CheckIds(const google::protobuf::RepeatedPtrField<std::string>& ids) {
  const auto wrong = [](absl::string_view what) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                     absl::StrCat("Open.datasets ", what));
  };
  if (ids.size() < 2 || static_cast<size_t>(ids.size()) > DatasetStore::kMost) {
    return wrong(absl::StrCat("has ", ids.size(), " ids; it has 2 to ", DatasetStore::kMost,
                              ": a dataset's, its list's or an empty one, other datasets'"));
  }
  for (int i = 0; i < ids.size(); ++i) {
    if (i == 1 ? ids[i].empty() || IsList(ids[i]) : IsDataset(ids[i])) continue;
    return wrong(absl::StrCat("[", i, "] is \"", Printable(ids[i].substr(0, kDigestDigits)),
                              "\", not ", i == 1 ? kListDigits : kDigestDigits,
                              " lower-case hex digits", i == 1 ? " or empty" : ""));
  }
  return absl::OkStatus();
}

// Memory that only the service writes: a list through the mapping that it gets here.
absl::StatusOr<UniqueFd> MakeMemory(uint64_t bytes, bool is_list, MemoryMap& list) {
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd fd, CreateMemoryToSeal("bulkhead-dataset", bytes));
  if (!is_list) return fd;
  BULKHEAD_ASSIGN_OR_RETURN(list, MemoryMap::Map(fd.get(), bytes));
  BULKHEAD_RETURN_IF_ERROR(SealMemory(fd.get(), MemoryWriters::kMappings));
  return fd;
}

// Of bytes that nobody can change any more.
absl::StatusOr<std::string> SealAndHash(const DatasetMemory& memory) {
  BULKHEAD_RETURN_IF_ERROR(SealMemory(memory.fd->get(), MemoryWriters::kNobody));
  BULKHEAD_ASSIGN_OR_RETURN(const MemoryMap map, MemoryMap::Map(memory.fd->get(), memory.bytes,
                                                                MemoryMap::Access::kRead));
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

absl::StatusOr<uint64_t> DatasetStore::Put(const v1::PutDatasetRequest& part,
                                           const std::string& client, int64_t now_ns) {
  BULKHEAD_RETURN_IF_ERROR(CheckAllowed());
  BULKHEAD_RETURN_IF_ERROR(CheckPart(part));
  const bool is_list = IsList(part.id());
  absl::MutexLock lock(&mutex_);
  Entries::pointer entry = AwaitEntry(part.id(), client);
  if (entry == nullptr) {
    if (part.data().empty() || part.offset() > 0) return 0;
    const Key key{part.id(), is_list ? "" : client};
    BULKHEAD_ASSIGN_OR_RETURN(entry, Begin(key, part.size(), now_ns));
  }
  Kept& kept = entry->second;
  if (kept.bytes != part.size()) {
    return Impossible(absl::StrCat("the whole has ", kept.bytes, " bytes, not ", part.size()));
  }
  kept.used_ns = kept.coming_ns = now_ns;
  const uint64_t end = part.offset() + part.data().size();
  if (part.offset() > kept.have || (!is_list && end <= kept.have)) return kept.have;
  if (is_list) {
    std::memcpy(kept.list.data() + part.offset(), part.data().data(), part.data().size());
  } else {
    BULKHEAD_RETURN_IF_ERROR(
        WriteExactly(kept.memory->fd->get(), part.offset(), part.data(), "writing a dataset"));
  }
  kept.have = std::max(kept.have, end);
  if (!is_list && kept.have == kept.bytes) {
    BULKHEAD_RETURN_IF_ERROR(Finish(Key(entry->first), kept));
    return part.size();
  }
  return kept.have;
}

DatasetStore::Entries::pointer DatasetStore::AwaitEntry(const std::string& id,
                                                        const std::string& client) {
  Entries::pointer entry = nullptr;
  const auto settled = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto found = entries_.find({id, ""});
    if (found == entries_.end()) found = entries_.find({id, client});
    entry = found == entries_.end() ? nullptr : &*found;
    return entry == nullptr || entry->second.state == State::kFilled ||
           entry->second.state == State::kWhole;
  };
  AwaitFor(mutex_, settled, absl::InfiniteDuration());
  return entry;
}

absl::Status DatasetStore::Finish(const Key& key, Kept& kept) {
  kept.state = State::kChecked;
  const std::shared_ptr<const DatasetMemory> memory = kept.memory;
  mutex_.Unlock();
  const absl::StatusOr<std::string> digest = SealAndHash(*memory);
  mutex_.Lock();
  const std::string& id = key.first;
  auto checked = entries_.extract(key);
  BULKHEAD_RETURN_IF_ERROR(digest.status());
  if (*digest != id) {
    return Impossible(absl::StrCat("the whole has the SHA-256 ", *digest, ", not ", id));
  }
  checked.key().second.clear();
  checked.mapped().state = State::kWhole;
  entries_.insert(std::move(checked));  // unless another client's was whole sooner
  std::erase_if(entries_, [&](const auto& entry) {
    return entry.first.first == id && entry.second.state == State::kFilled;
  });
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::shared_ptr<const DatasetMemory>>> DatasetStore::Find(
    const google::protobuf::RepeatedPtrField<std::string>& ids) {
  std::vector<std::shared_ptr<const DatasetMemory>> found;
  if (ids.empty()) return found;
  BULKHEAD_RETURN_IF_ERROR(CheckAllowed());
  BULKHEAD_RETURN_IF_ERROR(CheckIds(ids));
  absl::MutexLock lock(&mutex_);
  for (const std::string& id : ids) {
    if (id.empty()) {
      found.push_back(nullptr);
      continue;
    }
    const auto kept = entries_.find({id, ""});
    if (kept == entries_.end() || kept->second.state != State::kWhole) {
      return MakeError(absl::StatusCode::kFailedPrecondition, reason::kDatasetUnknown,
                       absl::StrCat("this service does not have the dataset ",
                                    Printable(id.substr(0, 8)), "…, or not all of it"));
    }
    kept->second.coming_ns = 0;
    found.push_back(kept->second.memory);
  }
  return found;
}

uint64_t DatasetStore::Bytes() const {
  uint64_t bytes = 0;
  for (const auto& [key, kept] : entries_) bytes += kept.bytes;
  return bytes;
}

absl::StatusOr<DatasetStore::Entries::pointer> DatasetStore::Begin(const Key& key, uint64_t bytes,
                                                                   int64_t now_ns) {
  constexpr absl::string_view kSmaller =
      "let it read large arrays from files (numpy.load with mmap_mode), or start bulkheadd with a "
      "larger --dataset-bytes";
  if (bytes > config_.most_bytes) {
    return NoRoom(bytes, absl::StrCat("--dataset-bytes is ", FormatBytes(config_.most_bytes)),
                  kSmaller);
  }
  const auto made = entries_.try_emplace(key).first;  // now others wait for it
  Kept& kept = made->second;
  kept.bytes = bytes;
  kept.used_ns = kept.coming_ns = now_ns;
  absl::Status admitted;
  while (admitted.ok() && (Bytes() > config_.most_bytes || entries_.size() > kMost)) {
    if (FreeOne(now_ns)) continue;
    const uint64_t others = Bytes() - bytes;
    admitted = NoRoomNow(
        kept, entries_.size() > kMost
                  ? NoRoom(bytes, absl::StrCat(kMost, " datasets and lists are in use already"),
                           "close loaders, or use another service")
                  : NoRoom(bytes,
                           absl::StrCat("others in use take ", FormatBytes(others),
                                        " of --dataset-bytes ", FormatBytes(config_.most_bytes)),
                           absl::StrCat("close other loaders, ", kSmaller)));
  }
  if (admitted.ok()) admitted = Admit(kept, now_ns);
  if (admitted.ok()) {
    auto fd = MakeMemory(bytes, IsList(key.first), kept.list);
    admitted = fd.status();
    if (fd.ok()) {
      kept.memory = std::make_shared<const DatasetMemory>(
          DatasetMemory{std::make_shared<const UniqueFd>(*std::move(fd)), bytes});
    }
  }
  if (!admitted.ok()) {
    entries_.erase(made);
    return admitted;
  }
  kept.state = IsList(key.first) ? State::kWhole : State::kFilled;
  return &*made;
}

absl::Status DatasetStore::Admit(Kept& kept, int64_t now_ns) {
  while (true) {
    mutex_.Unlock();
    auto claim = config_.admit(kept.bytes);
    mutex_.Lock();
    if (claim.ok()) {
      kept.claim = *std::move(claim);
      return absl::OkStatus();
    }
    if (!absl::IsResourceExhausted(claim.status())) return claim.status();
    if (!FreeOne(now_ns)) return NoRoomNow(kept, claim.status());
  }
}

bool DatasetStore::FreeOne(int64_t now_ns) {
  if (DropLeastRecent(now_ns)) return true;
  mutex_.Unlock();
  const bool ended = config_.end_idle();
  mutex_.Lock();
  const auto dropped = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return DropLeastRecent(now_ns);
  };
  return ended && AwaitFor(mutex_, dropped, kEndPatience);
}

absl::Status DatasetStore::NoRoomNow(const Kept& kept, absl::Status refusal) const {
  uint64_t coming = 0;
  for (const auto& [key, other] : entries_) {
    if (&other != &kept && other.coming_ns != 0) coming += other.bytes;
  }
  if (coming == 0) return refusal;
  return MakeError(absl::StatusCode::kResourceExhausted, reason::kTooManyCalls,
                   absl::StrCat("the dataset takes ", FormatBytes(kept.bytes),
                                ", for which there is no room while others of ",
                                FormatBytes(coming), " are sent; try again in some seconds"));
}

bool DatasetStore::DropLeastRecent(int64_t now_ns) {
  auto least = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    Kept& kept = it->second;
    if (kept.state == State::kAdmitted || kept.state == State::kChecked) continue;
    if (now_ns - kept.coming_ns >= absl::ToInt64Nanoseconds(kComing)) kept.coming_ns = 0;
    if (kept.coming_ns != 0 || kept.memory.use_count() > 1) continue;
    if (least == entries_.end() || kept.used_ns < least->second.used_ns) least = it;
  }
  if (least == entries_.end()) return false;
  entries_.erase(least);
  return true;
}

bool DatasetStore::DropOne(int64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  return DropLeastRecent(now_ns);
}

void DatasetStore::DropUnused(int64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    Kept& kept = it->second;
    const bool in_work = kept.state == State::kAdmitted || kept.state == State::kChecked;
    if (in_work || kept.memory.use_count() > 1) kept.used_ns = std::max(kept.used_ns, now_ns);
    const bool old = now_ns - kept.used_ns >= absl::ToInt64Nanoseconds(kKept);
    it = old ? entries_.erase(it) : std::next(it);
  }
}

}  // namespace bulkhead

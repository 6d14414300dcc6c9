#include "server/service/quarantine_store.h"

#include <google/protobuf/util/json_util.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/os/event_loop.h"
#include "server/os/files/filesystem.h"
#include "server/os/monotonic_wait.h"

namespace bulkhead {
namespace {

constexpr char kFileName[] = "quarantine.v1";
// Larger than anything the service writes.
constexpr size_t kMaxFileBytes = 8 << 20;
constexpr size_t kMaxReasonBytes = 1024;
constexpr char kAnyFingerprint[] = "-";

std::string Checked(absl::string_view text) {
  return absl::StrCat(absl::Hex(Crc32c(text), absl::kZeroPad8), " ", text, "\n");
}

std::string Line(const std::string& bytes_fingerprint, const v1::QuarantinedRecord& record) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  // Fails only for text that is not UTF-8; names and reasons are.
  (void)google::protobuf::util::MessageToJsonString(record, &json, options);
  return Checked(
      absl::StrCat(bytes_fingerprint.empty() ? kAnyFingerprint : bytes_fingerprint, " ", json));
}

struct ParsedLine {
  std::string bytes_fingerprint;
  v1::QuarantinedRecord record;
};

// Absent for a damaged or incomplete line.
std::optional<ParsedLine> ParseLine(absl::string_view line) {
  const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 2));
  if (parts.size() != 3) return std::nullopt;
  if (absl::StrCat(line, "\n") != Checked(line.substr(parts[0].size() + 1))) return std::nullopt;
  ParsedLine parsed;
  if (parts[1] != kAnyFingerprint) parsed.bytes_fingerprint = std::string(parts[1]);
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // from a newer service
  const auto json =
      google::protobuf::util::JsonStringToMessage(std::string(parts[2]), &parsed.record, options);
  const std::string& name = parsed.record.record();
  if (!json.ok() || name.empty() || name != CanonicalRecordName(name)) return std::nullopt;
  return parsed;
}

}  // namespace

QuarantineStore::QuarantineStore(const std::string& cache_dir)
    : path_(absl::StrCat(cache_dir, "/", kFileName)) {
  Refresh();
}

std::optional<QuarantineStore::Entries> QuarantineStore::ReadFile() const {
  Entries entries;
  const absl::StatusOr<UniqueFd> file = OpenOwnFile(path_, /*writable=*/false);
  const absl::StatusOr<std::string> text =
      file.ok() ? ReadPrefix(file->get(), kMaxFileBytes) : file.status();
  if (absl::IsNotFound(text.status())) return entries;
  if (!text.ok()) {
    spdlog::warn("the quarantine of earlier runs cannot be read: {}",
                 std::string(text.status().message()));
    return std::nullopt;
  }
  size_t damaged = 0;
  for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    std::optional<ParsedLine> parsed = ParseLine(line);
    if (!parsed.has_value() || entries.size() >= kMaxEntries) {
      ++damaged;
      continue;
    }
    Key key(parsed->record.record(), parsed->bytes_fingerprint);
    entries[std::move(key)] = std::move(parsed->record);
  }
  if (damaged > 0) {
    spdlog::warn("{}: {} damaged entries were dropped", path_, damaged);
  }
  return entries;
}

bool QuarantineStore::RefreshLocked() {
  std::optional<Entries> read = ReadFile();
  if (!read.has_value()) return false;
  Entries& entries = *read;
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, added] : unsaved_) {
    if (added) {
      entries[key] = entries_[key];
    } else {
      entries.erase(key);
    }
  }
  entries_ = std::move(entries);
  return true;
}

void QuarantineStore::Refresh() {
  absl::MutexLock file_lock(&file_mutex_);
  RefreshLocked();
}

absl::Status QuarantineStore::Save() {
  absl::MutexLock file_lock(&file_mutex_);
  // Never overwrite a file that could not be read.
  if (!RefreshLocked()) {
    return absl::UnavailableError(
        absl::StrCat(path_, " cannot be read, so it was not overwritten"));
  }
  std::map<Key, bool> saved;
  std::string text;
  {
    absl::MutexLock lock(&mutex_);
    if (unsaved_.empty()) return absl::OkStatus();
    saved = unsaved_;
    for (const auto& [key, record] : entries_) absl::StrAppend(&text, Line(key.second, record));
  }
  // The folder may have been removed.
  BULKHEAD_RETURN_IF_ERROR(MakeDirectories(path_.substr(0, path_.rfind('/'))));
  BULKHEAD_RETURN_IF_ERROR(ReplaceFile(path_, text));
  absl::MutexLock lock(&mutex_);
  for (const auto& change : saved) {
    const auto found = unsaved_.find(change.first);
    if (found != unsaved_.end() && found->second == change.second) unsaved_.erase(found);
  }
  return absl::OkStatus();
}

void QuarantineStore::RefreshWithin(const std::shared_ptr<QuarantineStore>& store, IoThread& io,
                                    absl::Duration patience) {
  if (io.Run([store] { store->Refresh(); }, patience)) return;
  spdlog::warn("{} does not answer, so records that other services have quarantined are not known",
               store->path_);
}

void QuarantineStore::SaveSoon(const std::shared_ptr<QuarantineStore>& store, IoThread& io) {
  {
    absl::MutexLock lock(&store->mutex_);
    ++store->saves_under_way_;
  }
  const auto done = [store](const absl::Status& status) {
    if (!status.ok()) {
      spdlog::warn("a quarantined record could not be saved yet: {}",
                   std::string(status.message()));
    }
    absl::MutexLock lock(&store->mutex_);
    --store->saves_under_way_;
  };
  if (!io.Post([store, done] { done(store->Save()); })) {
    done(absl::UnavailableError("the cache folder's disk does not answer"));
  }
}

std::optional<bool> QuarantineStore::AwaitSaves(absl::Duration patience) const {
  absl::MutexLock lock(&mutex_);
  const auto none = [this]()
                        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return saves_under_way_ == 0; };
  if (!AwaitFor(mutex_, none, patience)) return std::nullopt;
  return unsaved_.empty();
}

bool QuarantineStore::Flush(const std::shared_ptr<QuarantineStore>& store, IoThread& io,
                            absl::Duration patience) {
  const int64_t begin_ns = MonotonicNanos();
  const std::optional<bool> saved = store->AwaitSaves(patience);
  if (saved != false) return saved.has_value();
  SaveSoon(store, io);
  const absl::Duration waited = absl::Nanoseconds(MonotonicNanos() - begin_ns);
  return store->AwaitSaves(patience - waited).value_or(false);
}

bool QuarantineStore::FullFor(const std::string& bytes_fingerprint) const {
  if (entries_.size() >= kMaxEntries) return true;
  const auto same = [&](const auto& entry) { return entry.first.second == bytes_fingerprint; };
  return static_cast<size_t>(std::ranges::count_if(entries_, same)) >= QuarantineSet::kMaxRecords;
}

absl::Status QuarantineStore::Add(const v1::QuarantinedRecord& record,
                                  const std::string& bytes_fingerprint) {
  QuarantineSet one;
  if (const auto added = one.Add(record.record()); !added.ok()) return added.status();
  Key key(*one.records().begin(), bytes_fingerprint);
  absl::MutexLock lock(&mutex_);
  if (entries_.count(key) > 0) return absl::OkStatus();
  if (FullFor(bytes_fingerprint)) {
    return MakeError(absl::StatusCode::kResourceExhausted, reason::kQuarantineFull,
                     absl::StrCat("the quarantine is full and cannot store ", key.first,
                                  "; remove repaired records with `bulkhead quarantine clear`"),
                     RecordMetadata(key.first));
  }
  v1::QuarantinedRecord kept = record;
  kept.set_record(key.first);
  if (kept.reason().size() > kMaxReasonBytes) {
    // Do not cut inside a character.
    size_t bytes = kMaxReasonBytes;
    while (bytes > 0 && (static_cast<unsigned char>(kept.reason()[bytes]) & 0xc0) == 0x80) --bytes;
    kept.mutable_reason()->resize(bytes);
  }
  unsaved_[key] = true;
  entries_[std::move(key)] = std::move(kept);
  return absl::OkStatus();
}

void QuarantineStore::Clear(const std::vector<std::string>& records) {
  std::vector<std::string> names;
  for (const std::string& record : records) names.push_back(CanonicalRecordName(record));
  absl::MutexLock lock(&mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const bool meant = names.empty() || std::ranges::find(names, entry->first.first) != names.end();
    if (!meant) {
      ++entry;
      continue;
    }
    unsaved_[entry->first] = false;
    entry = entries_.erase(entry);
  }
}

std::vector<v1::QuarantinedRecord> QuarantineStore::List() const {
  std::vector<v1::QuarantinedRecord> list;
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, record] : entries_) {
    if (list.empty() || list.back().record() != record.record()) {
      list.push_back(record);
    } else if (list.back().time().seconds() < record.time().seconds()) {
      list.back() = record;
    }
  }
  return list;
}

absl::Status QuarantineStore::AddTo(QuarantineSet& set,
                                    const std::string& bytes_fingerprint) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, record] : entries_) {
    if (!key.second.empty() && key.second != bytes_fingerprint) continue;
    if (const auto added = set.Add(key.first); !added.ok()) return added.status();
  }
  return absl::OkStatus();
}

}  // namespace bulkhead

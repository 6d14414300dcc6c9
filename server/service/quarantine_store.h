#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/base/quarantine_set.h"
#include "server/os/files/io_thread.h"

namespace bulkhead {

// The records that this service withholds from its workers, in a file of the cache folder, so that
// a restart need not lose workers to find them again. A stream's set is what the store and its
// cursor hold when it opens; later additions affect later streams only.
//
// A record that ended workers is stored under its pipeline's bytes fingerprint, because other
// stages may survive it; a record added by hand counts for every pipeline. No fingerprint includes
// the memory quota: clear the quarantine after raising it.
//
// Each line of the file is one entry: the CRC32C of the rest, the fingerprint or "-", and the
// v1.QuarantinedRecord as JSON. Damaged lines are dropped with a warning. Services that share a
// cache folder share the file. If two write at the same moment, the file loses one's entry, which
// that service still has in memory. Thread-safe; Refresh and Save block for the disk.
class QuarantineStore {
 public:
  // Limit of all entries together.
  static constexpr size_t kMaxEntries = 4096;

  // Reads the file in `cache_dir` if it exists.
  explicit QuarantineStore(const std::string& cache_dir);

  const std::string& path() const { return path_; }

  // Takes over what other services have written since the last call.
  void Refresh() ABSL_LOCKS_EXCLUDED(file_mutex_, mutex_);
  // Makes additions and removals durable. Errors: those of the disk; memory keeps the entries, and
  // the next Save retries.
  absl::Status Save() ABSL_LOCKS_EXCLUDED(file_mutex_, mutex_);

  // Refreshes on `io`; continues with what is known after `patience`.
  static void RefreshWithin(const std::shared_ptr<QuarantineStore>& store, IoThread& io,
                            absl::Duration patience);
  // Saves on `io`, for callers that must not block on the disk. Failures are logged.
  static void SaveSoon(const std::shared_ptr<QuarantineStore>& store, IoThread& io);
  // Call it before the process ends: waits for such saves, and saves again if something is unsaved.
  // False after `patience`, or if the disk fails.
  static bool Flush(const std::shared_ptr<QuarantineStore>& store, IoThread& io,
                    absl::Duration patience);

  // Adds a record for pipelines with that bytes fingerprint; empty: for all. Keeps an existing
  // entry. Does not block; call Save afterwards. RESOURCE_EXHAUSTED (QUARANTINE_FULL);
  // INVALID_ARGUMENT for an invalid name.
  absl::Status Add(const v1::QuarantinedRecord& record, const std::string& bytes_fingerprint)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes these records under all fingerprints; an empty list: all records.
  void Clear(const std::vector<std::string>& records) ABSL_LOCKS_EXCLUDED(mutex_);

  // Each record once, sorted by name, with its newest entry.
  std::vector<v1::QuarantinedRecord> List() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds to `set` what pipelines with that fingerprint must leave out. QUARANTINE_FULL.
  absl::Status AddTo(QuarantineSet& set, const std::string& bytes_fingerprint) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Key = std::pair<std::string, std::string>;  // record, fingerprint
  using Entries = std::map<Key, v1::QuarantinedRecord>;

  // Absent if the file exists but cannot be read; what is known then stays.
  std::optional<Entries> ReadFile() const;
  // False if the file could not be read.
  bool RefreshLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mutex_) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for the saves of SaveSoon; true if nothing is unsaved then, absent after `patience`.
  std::optional<bool> AwaitSaves(absl::Duration patience) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the entries for all pipelines, or all entries, reach their limit.
  bool FullFor(const std::string& bytes_fingerprint) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  absl::Mutex file_mutex_;  // held to read or write the file
  mutable absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(file_mutex_);
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  // Keys that differ from the file: true if added, false if removed.
  std::map<Key, bool> unsaved_ ABSL_GUARDED_BY(mutex_);
  int saves_under_way_ ABSL_GUARDED_BY(mutex_) = 0;  // by SaveSoon
};

}  // namespace bulkhead

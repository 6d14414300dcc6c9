#ifndef BULKHEAD_SERVER_SERVICE_QUARANTINE_STORE_H_
#define BULKHEAD_SERVER_SERVICE_QUARANTINE_STORE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/base/quarantine_set.h"
#include "server/os/files/io_thread.h"

namespace bulkhead {

// The records that this service keeps from its workers, in a file of the cache folder, so that a
// restart does not cost the workers that finding them took. A stream takes its set from here when
// it opens, and from its cursor; what is added later concerns streams that are opened later.
//
// A record that ended workers is kept under the bytes fingerprint of its pipeline, as other stages
// may not mind it; one that was added by hand counts for every pipeline. Its memory quota is in no
// fingerprint: whoever raises it clears the quarantine.
//
// The file has a line for each entry: the CRC32C of what follows, the fingerprint or "-", and the
// v1.QuarantinedRecord as JSON. Damaged lines are forgotten with a warning. Services that share a
// cache folder share the file; of two that write in the same moment one loses its entry, which it
// still holds itself. Thread-safe; Refresh and Save block for the disk.
class QuarantineStore {
 public:
  // Entries in all, whatever their fingerprints.
  static constexpr size_t kMaxEntries = 4096;

  // Reads the file in `cache_dir`, if there is one.
  explicit QuarantineStore(const std::string& cache_dir);

  const std::string& path() const { return path_; }

  // Takes over what other services have written since.
  void Refresh() ABSL_LOCKS_EXCLUDED(file_mutex_, mutex_);
  // Makes additions and removals durable. Errors are those of the disk; memory has the entries all
  // the same, and the next Save tries again.
  absl::Status Save() ABSL_LOCKS_EXCLUDED(file_mutex_, mutex_);

  // Refreshes on `io`, and goes on with what is known when that takes longer than `patience`.
  static void RefreshWithin(const std::shared_ptr<QuarantineStore>& store, IoThread& io,
                            absl::Duration patience);
  // Saves on `io`, for callers that must not wait for the disk; what goes wrong is logged.
  static void SaveSoon(const std::shared_ptr<QuarantineStore>& store, IoThread& io);
  // Before the process ends: waits until such saves are done, after another one if something is not
  // saved yet. False when that took longer than `patience`, or the disk refused.
  static bool Flush(const std::shared_ptr<QuarantineStore>& store, IoThread& io,
                    absl::Duration patience);

  // Adds a record, for pipelines of that bytes fingerprint; empty: for all. Does not block; to be
  // followed by Save. RESOURCE_EXHAUSTED (QUARANTINE_FULL), INVALID_ARGUMENT for a name that is
  // none. A record that is there already stays as it is.
  absl::Status Add(const v1::QuarantinedRecord& record, const std::string& bytes_fingerprint)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes records under whichever fingerprint; nothing named: all.
  void Clear(const std::vector<std::string>& records) ABSL_LOCKS_EXCLUDED(mutex_);

  // Each record once, by name; of several entries the newest.
  std::vector<v1::QuarantinedRecord> List() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds what pipelines of that fingerprint must leave out. QUARANTINE_FULL.
  absl::Status AddTo(QuarantineSet& set, const std::string& bytes_fingerprint) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Key = std::pair<std::string, std::string>;  // record, fingerprint
  using Entries = std::map<Key, v1::QuarantinedRecord>;

  // Absent when the file is there and cannot be read: what is known stays.
  std::optional<Entries> ReadFile() const;
  // False then.
  bool RefreshLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mutex_) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for the saves of SaveSoon: whether nothing is unsaved then; absent after `patience`.
  std::optional<bool> AwaitSaves(absl::Duration patience) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Of those for all pipelines, or in all.
  bool FullFor(const std::string& bytes_fingerprint) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  absl::Mutex file_mutex_;  // one reads or writes the file
  mutable absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(file_mutex_);
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  // Keys that differ from the file: true where they were added, false where they were removed.
  std::map<Key, bool> unsaved_ ABSL_GUARDED_BY(mutex_);
  int saves_under_way_ ABSL_GUARDED_BY(mutex_) = 0;  // of SaveSoon
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_QUARANTINE_STORE_H_

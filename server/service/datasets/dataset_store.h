#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/os/memory/memory_map.h"
#include "server/supervisor/pool/pipeline_config.h"

namespace bulkhead {

// Datasets of clients, in memory of this process, and the lists of their samplers. Their bytes are
// pickled code and data: nothing here looks into them, only workers do.
//
//   first part ─▶ kAdmitted: its memory is admitted ─▶ kFilled, part by part ─▶ kChecked: sealed
//   and hashed ─▶ kWhole: streams may read it, nobody can write it
//
// A list is kWhole at once; only this process can write it, whenever the client sends parts between
// two streams. Until a dataset is whole it belongs to the client that sends it: another one's wrong
// bytes do not get into it. What no stream and no pool has used for kKept is dropped, and before
// that what was used least recently, if another one needs its room. Thread-safe.
class DatasetStore {
 public:
  static constexpr absl::Duration kKept = absl::Minutes(2);
  // So long after a part of it came a dataset is not dropped for another one, unless a stream has
  // got it since: more parts will come, or Open.
  static constexpr absl::Duration kComing = absl::Seconds(10);
  static constexpr size_t kMostPartBytes = 4 << 20;
  static constexpr size_t kMost = 256;  // datasets and lists

  struct Config {
    bool allowed = false;
    uint64_t most_bytes = 0;  // of all together
    // Claims so many bytes of the memory budget, until the last copy is gone. May block.
    std::function<absl::StatusOr<std::shared_ptr<void>>(uint64_t bytes)> admit;
    // Ends workers without streams that hold datasets, which are free a little later. False if
    // there are none. May block.
    std::function<bool()> end_idle;
  };

  explicit DatasetStore(Config config) : config_(std::move(config)) {}

  // Keeps a part; returns how many bytes are there, from the first on. A part that is there already
  // is left out. `client`: who shares what is not whole. Blocks for the memory with the first part,
  // and for hashing, with the last one, of this call or of another one. Errors:
  // PERMISSION_DENIED (DATASET_REFUSED) where datasets are not allowed, RESOURCE_EXHAUSTED without
  // room (DATASET_REFUSED, BUDGET_EXCEEDED; TOO_MANY_CALLS if others that are sent just now have
  // it), INVALID_ARGUMENT (PROTOCOL_VIOLATION) for an impossible request, and when the bytes are
  // not those of the id, which are dropped.
  absl::StatusOr<uint64_t> Put(const v1::PutDatasetRequest& part, const std::string& client,
                               int64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);

  // What Open names; null for an empty id. PERMISSION_DENIED (DATASET_REFUSED); INVALID_ARGUMENT
  // for ids that Open must not have; FAILED_PRECONDITION (DATASET_UNKNOWN) for one that is not
  // there, or not whole.
  absl::StatusOr<std::vector<std::shared_ptr<const DatasetMemory>>> Find(
      const google::protobuf::RepeatedPtrField<std::string>& ids) ABSL_LOCKS_EXCLUDED(mutex_);

  // Drops what was not used for kKept. Does not block.
  void DropUnused(int64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops one that nobody uses, whose memory a stream needs. False if there is none.
  bool DropOne(int64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class State { kAdmitted, kFilled, kChecked, kWhole };
  // Its id, and its client until it is whole.
  using Key = std::pair<std::string, std::string>;
  struct Kept {
    State state = State::kAdmitted;
    uint64_t bytes = 0;
    std::shared_ptr<void> claim;
    std::shared_ptr<const DatasetMemory> memory;
    MemoryMap list;  // writable; of a list
    uint64_t have = 0;
    int64_t used_ns = 0;
    int64_t coming_ns = 0;  // when a part came; 0: a stream has got it since
  };
  using Entries = std::map<Key, Kept>;

  absl::Status CheckAllowed() const;
  // Null: there is none. Releases the lock while it is admitted or checked.
  Entries::pointer AwaitEntry(const std::string& id, const std::string& client)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes an entry, for which others may have to go. Releases the lock meanwhile.
  absl::StatusOr<Entries::pointer> Begin(const Key& key, uint64_t bytes, int64_t now_ns)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Admit(Kept& kept, int64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes a dataset everybody's whose last part has come. Releases the lock meanwhile.
  absl::Status Finish(const Key& key, Kept& kept) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Drops an entry, if need be of a pool without streams, for which it releases the lock. False if
  // all that remain are used or coming.
  bool FreeOne(int64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool DropLeastRecent(int64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The error for a dataset for which FreeOne found nothing; `refusal` if waiting does not help.
  absl::Status NoRoomNow(const Kept& kept, absl::Status refusal) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t Bytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Config config_;
  absl::Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead

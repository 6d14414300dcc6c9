#ifndef BULKHEAD_SERVER_SERVICE_DATASETS_DATASET_STORE_H_
#define BULKHEAD_SERVER_SERVICE_DATASETS_DATASET_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/supervisor/pool/pipeline_config.h"

namespace bulkhead {

// Datasets of clients, in memory of this process, and the lists of their samplers. Their bytes are
// pickled code and data: nothing here looks into them, only workers do.
//
// A dataset is put part by part, has been checked against its id when it is whole, and then never
// changes. It is dropped when no stream and no pool has used it for kKept, or when another one
// needs its room. Lists change whenever their client writes them; it does so between two streams.
// Thread-safe.
class DatasetStore {
 public:
  static constexpr absl::Duration kKept = absl::Minutes(2);
  static constexpr size_t kMostPartBytes = 4 << 20;
  static constexpr size_t kMost = 256;  // datasets and lists

  struct Config {
    bool allowed = false;
    uint64_t most_bytes = 0;  // of all together
    // Claims so many bytes of the memory budget, until the last copy is gone.
    std::function<absl::StatusOr<std::shared_ptr<void>>(uint64_t bytes)> admit;
  };

  explicit DatasetStore(Config config) : config_(std::move(config)) {}

  // Keeps a part; returns how many bytes are there, from the first on. A part that is there already
  // is left out. With the last part it blocks until all of them are hashed. Errors:
  // PERMISSION_DENIED (DATASET_REFUSED) where datasets are not allowed, RESOURCE_EXHAUSTED
  // (DATASET_REFUSED, BUDGET_EXCEEDED) without room, INVALID_ARGUMENT (PROTOCOL_VIOLATION) for an
  // impossible request, and when the bytes are not those of the id, which are dropped.
  absl::StatusOr<uint64_t> Put(const v1::PutDatasetRequest& part, int64_t now_ns)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // What Open names; null for an empty id. PERMISSION_DENIED (DATASET_REFUSED); FAILED_PRECONDITION
  // (DATASET_UNKNOWN) for one that is not there, or not whole.
  absl::StatusOr<std::vector<std::shared_ptr<const DatasetMemory>>> Find(
      const google::protobuf::RepeatedPtrField<std::string>& ids) ABSL_LOCKS_EXCLUDED(mutex_);

  // Drops what was not used for kKept.
  void DropUnused(int64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Kept {
    std::shared_ptr<const DatasetMemory> memory;
    std::shared_ptr<void> claim;
    uint64_t have = 0;
    bool whole = false;
    int64_t used_ns = 0;
  };
  using Entries = std::map<std::string, Kept>;

  absl::Status CheckAllowed() const;
  // Makes an entry, for which others may have to go.
  absl::StatusOr<Kept*> Begin(const std::string& id, uint64_t bytes, int64_t now_ns)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of all entries that nobody uses the one that was used least recently; end() if there is none.
  Entries::iterator LeastRecent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t Bytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Config config_;
  absl::Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_DATASETS_DATASET_STORE_H_

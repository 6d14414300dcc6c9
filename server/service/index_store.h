#ifndef BULKHEAD_SERVER_SERVICE_INDEX_STORE_H_
#define BULKHEAD_SERVER_SERVICE_INDEX_STORE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/supervisor/supervisor.h"

namespace bulkhead {

// The record indexes of all sources, kept in a cache folder and built by index workers when they
// are missing. The index of a TFRecord file is found again by the file's path, size and time; lists
// and folders are read anew at every Open, since nothing cheap tells whether an image of theirs was
// added. Thread-safe; several services may share the folder.
class IndexStore {
 public:
  using ProgressFn = std::function<void(const v1::Progress&)>;
  using CancelledFn = std::function<bool()>;

  // `cache_dir` must exist and be writable. At most `max_parallel` indexes are under way at once
  // for one caller.
  IndexStore(std::string cache_dir, uint32_t max_parallel, uint64_t worker_quota_bytes,
             Supervisor* supervisor);

  // Fills in index_path, record_count and checksum of every file of `resolved`, building what is
  // missing. Blocks; calls `progress` at least once a second and gives up with CANCELLED soon after
  // `cancelled` says so. Errors: BuildIndex's for the first file that has one; RESOURCE_EXHAUSTED
  // when the cache folder is full.
  absl::Status EnsureIndexes(const v1::Source& source, internal::v1::ResolvedSource& resolved,
                             const ProgressFn& progress, const CancelledFn& cancelled);

 private:
  std::string CachedPath(const v1::Source& source, const internal::v1::ResolvedFile& file) const;

  const std::string cache_dir_;
  const uint32_t max_parallel_;
  const uint64_t worker_quota_bytes_;
  Supervisor* const supervisor_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_INDEX_STORE_H_

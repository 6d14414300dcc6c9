#ifndef BULKHEAD_SERVER_SERVICE_INDEX_STORE_H_
#define BULKHEAD_SERVER_SERVICE_INDEX_STORE_H_

#include <string>

#include "absl/status/status.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/service/index_builds.h"

namespace bulkhead {

// The record indexes of all sources and the selections made from them, kept in a cache folder and
// built by index workers when they are missing. The index of a TFRecord file is found again by the
// file's path, size and time; lists and folders are read anew at every Open, since nothing cheap
// tells whether an image of theirs was added. A selection is found again by its index, the file's
// name and checksum, and the filter and split that made it. Thread-safe; several services may share
// the folder.
class IndexStore {
 public:
  using ProgressFn = IndexBuilds::ProgressFn;
  using CancelledFn = IndexBuilds::CancelledFn;

  // `cache_dir` must exist and be writable. At most `max_parallel` indexes are under way at once
  // for one caller.
  IndexStore(std::string cache_dir, uint32_t max_parallel, uint64_t worker_quota_bytes,
             Supervisor* supervisor);

  // Removes the indexes and selections of the file called `name` in the metadata of an
  // INDEX_DAMAGED error, so that the next Open builds them anew: their headers look good, or nobody
  // would have used them.
  static void Forget(const internal::v1::ResolvedSource& resolved, const std::string& name);

  // Fills in index_path, record_count and checksum of every file of `resolved`, building what is
  // missing. Blocks; calls `progress` at least once a second and gives up with CANCELLED soon after
  // `cancelled` says so. Errors: BuildIndex's for the first file that has one; RESOURCE_EXHAUSTED
  // when the cache folder is full.
  absl::Status EnsureIndexes(const v1::Source& source, internal::v1::ResolvedSource& resolved,
                             const ProgressFn& progress, const CancelledFn& cancelled);

  // Fills in selection_path, part_count and kept_count of every indexed file of `resolved`, where
  // `selection` has a filter or a split; nothing is done or kept without them. A range, which has
  // no file, gets one that holds its selection. Blocks, and errors, as EnsureIndexes does.
  absl::Status EnsureSelections(const v1::Source& source,
                                const google::protobuf::Map<std::string, v1::Feature>& features,
                                const internal::v1::Selection& selection,
                                internal::v1::ResolvedSource& resolved, const ProgressFn& progress,
                                const CancelledFn& cancelled);

 private:
  std::string CachedPath(const v1::Source& source, const internal::v1::ResolvedFile& file) const;

  const std::string cache_dir_;
  const IndexBuilds builds_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_INDEX_STORE_H_

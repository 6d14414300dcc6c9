#ifndef BULKHEAD_SERVER_DATA_INDEX_STORE_H_
#define BULKHEAD_SERVER_DATA_INDEX_STORE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/data/index_folder.h"
#include "server/data/index_kind.h"

namespace bulkhead {

// The record indexes of all sources and the selections made from them, kept in a folder and built
// when they are missing. The index of a TFRecord file is found again by the
// file's path, size and time; lists and folders are read anew at every Open, since nothing cheap
// tells whether an image of theirs was added. A selection is found again by its index, the file's
// name and checksum, and the filter and split that made it. Thread-safe; several services may share
// the folder.
class IndexStore {
 public:
  // `build` builds what is missing.
  IndexStore(IndexFolder::Config folder, BuildIndexesFn build);

  // The indexes and selections that `damage`, an INDEX_DAMAGED error, is about are built anew at
  // the next Open. Does not block.
  void NoteDamage(const internal::v1::ResolvedSource& resolved, const absl::Status& damage);

  // Keeps the indexes and selections of `resolved` open, in the order of IndexPaths; see
  // IndexFolder::Open.
  absl::StatusOr<std::vector<SharedFd>> KeepOpen(internal::v1::ResolvedSource& resolved);

  // Fills in index_path, record_count and checksum of every file of `resolved`, building what is
  // missing. Blocks; calls `progress` at least once a second and gives up with CANCELLED soon after
  // `cancelled` says so. Errors: BuildIndex's for the first file that has one; RESOURCE_EXHAUSTED
  // when the cache folder is full.
  absl::Status EnsureIndexes(const v1::Source& source, internal::v1::ResolvedSource& resolved,
                             const FindProgressFn& progress, const FindCancelledFn& cancelled);

  // Fills in selection_path, part_count and kept_count of every indexed file of `resolved`, where
  // `selection` has a filter or a split; nothing is done or kept without them. A range, which has
  // no file, gets one that holds its selection. Blocks, and errors, as EnsureIndexes does.
  absl::Status EnsureSelections(const v1::Source& source,
                                const google::protobuf::Map<std::string, v1::Feature>& features,
                                const internal::v1::Selection& selection,
                                internal::v1::ResolvedSource& resolved,
                                const FindProgressFn& progress, const FindCancelledFn& cancelled);

 private:
  std::string CachedPath(const v1::Source& source, const internal::v1::ResolvedFile& file) const;

  // Builds what is missing of one kind, and collects what is too much then.
  absl::Status Build(const IndexKind& kind, const std::vector<size_t>& missing,
                     internal::v1::ResolvedSource& resolved, const FindProgressFn& progress,
                     const FindCancelledFn& cancelled);

  IndexFolder folder_;
  const BuildIndexesFn build_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_DATA_INDEX_STORE_H_

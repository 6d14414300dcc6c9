#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/base/class_names.h"
#include "server/data/index_folder.h"
#include "server/data/index_kind.h"
#include "server/data/object_fetcher.h"
#include "server/os/files/fd_parcel.h"
#include "server/spec/signature.h"

namespace bulkhead {

// The record indexes of all sources, and the selections made from them, stored in a folder and
// built when missing. A TFRecord file's index is found again by the file's path, size and time.
// Lists and folders are read again at every Open, because no cheap check would find a new image. A
// selection is found again by its index, the file's name and checksum, and its filter and split.
// Thread-safe; several services may share the folder.
class IndexStore {
 public:
  // `build` builds missing files.
  // `objects` null: no source has objects; else it must outlive this.
  IndexStore(IndexFolder::Config folder, BuildIndexesFn build, ObjectFetcher* objects = nullptr);

  // Rebuilds, at the next Open, the indexes and selections that the INDEX_DAMAGED error `damage`
  // names. Does not block.
  void NoteDamage(const internal::v1::ResolvedSource& resolved, const absl::Status& damage);

  // Keeps the indexes and selections of `resolved` open, in the order of IndexPaths; see
  // IndexFolder::Open.
  absl::StatusOr<std::vector<SharedFd>> KeepOpen(internal::v1::ResolvedSource& resolved);

  // Sets index_path, record_count and checksum of every file of `resolved`, and builds missing
  // indexes. `selection` says what becomes a sample error instead of failing the indexing: images
  // that are not there, and malformed lines. Blocks; reports to `caller` at least once a second,
  // and stops with CANCELLED soon after it cancels. Errors: those of BuildIndex for the first
  // failing file; RESOURCE_EXHAUSTED if the cache folder is full.
  absl::Status EnsureIndexes(const v1::Source& source, const internal::v1::Selection& selection,
                             internal::v1::ResolvedSource& resolved, const FindCaller& caller);

  // The names of the classes of an indexed list or folder; empty for other sources. Blocks.
  // INDEX_DAMAGED.
  absl::StatusOr<ClassNames> NamesOf(const internal::v1::ResolvedSource& resolved) const;

  // If `selection` has a filter or a split, sets selection_path, part_count and kept_count of every
  // indexed file of `resolved`; else does nothing. A range, which has no file, gets one for its
  // selection. Blocks, with the errors of EnsureIndexes.
  absl::Status EnsureSelections(const v1::Source& source, const FeatureMap& features,
                                const internal::v1::Selection& selection,
                                internal::v1::ResolvedSource& resolved, const FindCaller& caller);

 private:
  std::string CachedPath(const v1::Source& source, const internal::v1::ResolvedFile& file) const;

  // Adopts what the folder has for the files of `resolved`, if it `fits`; returns the other ones.
  std::vector<size_t> AdoptKept(const IndexKind& kind, const decltype(IndexKind::belongs)& fits,
                                internal::v1::ResolvedSource& resolved);
  // Sets the table of a list that names objects, which are found first, by the request of
  // `indexing`.
  absl::Status ListUrls(const IndexKind& indexing, internal::v1::ResolvedSource& resolved,
                        const FindCaller& caller);
  // Sets the table of the objects that `list` asks for.
  absl::Status List(internal::v1::ListObjects list, SharedFd urls, const std::string& what,
                    internal::v1::ResolvedFile& file, const FindCaller& caller);

  // Builds missing files of one kind, then removes old ones.
  absl::Status Build(const IndexKind& kind, const std::vector<size_t>& missing,
                     internal::v1::ResolvedSource& resolved, const FindCaller& caller);

  // The same once the names of classes are on this host; makes the table of a list that names
  // objects.
  absl::Status BuildNamed(const IndexKind& kind, const std::vector<size_t>& missing,
                          internal::v1::ResolvedSource& resolved, const FindCaller& caller);

  // Waits until the object `file` is on this host.
  static absl::Status AwaitFetch(ObjectFetcher::WholeFetch& fetch,
                                 const internal::v1::ResolvedFile& file, const FindCaller& caller);

  // Builds those of objects, one after another, while their bytes are on this host.
  absl::Status BuildOfObjects(const IndexKind& kind, const std::vector<size_t>& missing,
                              internal::v1::ResolvedSource& resolved, const FindCaller& caller);

  IndexFolder folder_;
  const BuildIndexesFn build_;
  ObjectFetcher* const objects_;  // may be null
};

}  // namespace bulkhead

#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/data/index_folder.h"
#include "server/data/index_kind.h"
#include "server/data/object_fetcher.h"

namespace bulkhead {

// Takes the indexes that lie beside objects (published_index.h) into an IndexFolder:
//
//   missing ─▶ one listing of each folder ─▶ fetch, many at a time ─▶ check ─▶ publish, adopt
//
// An index that is missing, stale, damaged or too large is built by whoever asks; a line of the log
// says why.
class PublishedIndexes {
 public:
  // Both must outlive this.
  PublishedIndexes(ObjectFetcher& objects, IndexFolder& folder)
      : objects_(objects), folder_(folder) {}

  // Adopts what lies beside the files `missing` (by number) of `resolved`, of a kind with a claim.
  // Returns those that are still missing. Blocks; calls `progress` at least once a second.
  // CANCELLED soon after `cancelled` returns true.
  absl::StatusOr<std::vector<size_t>> Adopt(const IndexKind& kind,
                                            const std::vector<size_t>& missing,
                                            internal::v1::ResolvedSource& resolved,
                                            const FindProgressFn& progress,
                                            const FindCancelledFn& cancelled);

 private:
  // The indexes beside `urls`, by their own URLs.
  absl::StatusOr<std::map<std::string, internal::v1::ResolvedFile>> Find(
      const std::vector<std::string>& urls, const FindCancelledFn& cancelled);
  // Adopts the index in `published`, whose bytes are on this host.
  absl::Status AdoptOne(const IndexKind& kind, const internal::v1::ResolvedFile& published,
                        internal::v1::ResolvedFile& file);

  ObjectFetcher& objects_;
  IndexFolder& folder_;
};

// The patterns that find the indexes beside `urls` of s3 and gs: one for all that are in one
// folder. Matches may include others.
std::vector<std::string> PatternsOfPublished(const std::vector<std::string>& urls);

}  // namespace bulkhead

#pragma once

#include <cstddef>
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
// Adopts what lies beside the files `missing` (by number) of `resolved`, of a kind with a claim.
// Returns those that are still missing. An index that is missing, stale, damaged or too large is
// built by whoever asks; a line of the log says why. Blocks; reports to `caller` once a second.
// CANCELLED soon after it cancels.
absl::StatusOr<std::vector<size_t>> AdoptPublished(ObjectFetcher& objects, IndexFolder& folder,
                                                   const IndexKind& kind,
                                                   const std::vector<size_t>& missing,
                                                   internal::v1::ResolvedSource& resolved,
                                                   const FindCaller& caller);

// The patterns that find the indexes beside `urls` of s3 and gs: one for all that are in one
// folder. Matches may include others.
std::vector<std::string> PatternsOfPublished(const std::vector<std::string>& urls);

}  // namespace bulkhead

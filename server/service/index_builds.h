#ifndef BULKHEAD_SERVER_SERVICE_INDEX_BUILDS_H_
#define BULKHEAD_SERVER_SERVICE_INDEX_BUILDS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/data/index_folder.h"
#include "server/data/index_kind.h"
#include "server/supervisor/supervisor.h"

namespace bulkhead {

// Has index workers write what is missing into the cache folder, several files at a time.
// Thread-safe.
class IndexBuilds {
 public:
  // At most `max_parallel` indexes are under way at once for one caller.
  IndexBuilds(uint32_t max_parallel, uint64_t worker_quota_bytes, Supervisor* supervisor);

  // A BuildIndexesFn. Calls `progress` at least once a second and gives up with CANCELLED soon
  // after `cancelled` says so. Errors: BuildIndex's for the first file that has one;
  // RESOURCE_EXHAUSTED when the cache folder is full.
  absl::Status Run(const IndexKind& kind, const std::vector<size_t>& missing, IndexFolder& folder,
                   internal::v1::ResolvedSource& resolved, const FindProgressFn& progress,
                   const FindCancelledFn& cancelled) const;

 private:
  const uint32_t max_parallel_;
  const uint64_t worker_quota_bytes_;
  Supervisor* const supervisor_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_INDEX_BUILDS_H_

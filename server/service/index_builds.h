#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/data/index_folder.h"
#include "server/data/index_kind.h"
#include "server/supervisor/supervisor.h"

namespace bulkhead {

// Makes index workers write missing indexes into the cache folder, several files at a time.
// Thread-safe.
class IndexBuilds {
 public:
  // At most `max_parallel` indexes are built at once for one caller.
  IndexBuilds(uint32_t max_parallel, uint64_t worker_quota_bytes, Supervisor* supervisor);

  // A BuildIndexesFn. Reports at least once a second; stops with CANCELLED soon after the caller
  // cancels. Errors: those of BuildIndex for the first failing file;
  // RESOURCE_EXHAUSTED if the cache folder is full.
  absl::Status Run(const IndexKind& kind, const std::vector<size_t>& missing, IndexFolder& folder,
                   internal::v1::ResolvedSource& resolved, const FindCaller& caller) const;

 private:
  const uint32_t max_parallel_;
  const uint64_t worker_quota_bytes_;
  Supervisor* const supervisor_;
};

}  // namespace bulkhead

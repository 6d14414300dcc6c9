#pragma once

#include <cstdint>

#include "server/data/index_kind.h"
#include "server/supervisor/supervisor.h"

namespace bulkhead {

// Makes index workers write missing indexes into the cache folder, several files at a time: at most
// `max_parallel` at once for one caller. The function, which is thread-safe, reports at least once
// a second, and stops with CANCELLED soon after the caller cancels. Errors: those of BuildIndex for
// the first failing file; RESOURCE_EXHAUSTED if the cache folder is full. `supervisor` outlives it.
BuildIndexesFn IndexBuilder(uint32_t max_parallel, uint64_t worker_quota_bytes,
                            Supervisor* supervisor);

}  // namespace bulkhead

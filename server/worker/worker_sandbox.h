#ifndef BULKHEAD_SERVER_WORKER_WORKER_SANDBOX_H_
#define BULKHEAD_SERVER_WORKER_WORKER_SANDBOX_H_

#include "bulkhead/internal/v1/worker.pb.h"
#include "server/os/sandbox/sandbox.h"

namespace bulkhead {

// The sandbox of a worker that is bound to `binding`: it may read the data roots, or everything
// where its source has none because the user's rights are the limit (a range: nothing), the indexes
// and the decoders' plugins. It has `open_files` indexes open until it has mapped them.
SandboxOptions PipelineSandbox(const internal::v1::Bind& bind,
                               const internal::v1::PipelineBinding& binding,
                               uint64_t open_files = 0);

// The sandbox of a worker that builds indexes. What it writes goes to descriptors that it is
// handed.
SandboxOptions IndexSandbox(const internal::v1::BuildIndex& job);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_WORKER_WORKER_SANDBOX_H_

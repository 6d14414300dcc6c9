#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bulkhead/internal/v1/worker.pb.h"
#include "server/os/sandbox/sandbox.h"

namespace bulkhead {

// The sandbox of a worker bound to `binding`. It may read the data roots (without roots everything,
// limited by the user's rights; for a range nothing), the indexes and the decoders' plugins. It has
// `open_files` indexes open until it has mapped them.
SandboxOptions PipelineSandbox(const internal::v1::Bind& bind,
                               const internal::v1::PipelineBinding& binding,
                               uint64_t open_files = 0);

// Makes the worker's own folder, if `bind` names one, with HOME and TMPDIR in it, and puts this
// process into the sandbox of PipelineSandbox for good. `code`: what loading the user's code reads.
// Without its folder a worker goes on, and nothing is writable. See EnterSandbox.
std::vector<SandboxPart> EnterPipelineSandbox(const internal::v1::Bind& bind,
                                              const internal::v1::PipelineBinding& binding,
                                              const std::vector<std::string>& code,
                                              uint64_t open_files = 0);

// The sandbox of a worker that builds indexes. It writes only to descriptors that it is given.
SandboxOptions IndexSandbox(const internal::v1::BuildIndex& job);

}  // namespace bulkhead

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace bulkhead {

// Where services and tools of this user keep their files unless they are told.

// $XDG_RUNTIME_DIR/bulkhead, or a folder of this user in /tmp; made, and private to the user.
absl::StatusOr<std::string> UserRuntimeFolder();

// $XDG_CACHE_HOME/bulkhead, ~/.cache/bulkhead, or the runtime folder; not made.
absl::StatusOr<std::string> UserCacheFolder();

// The bytes of a cache in `folder` that fills no disk: a part of what is free there or lies in the
// folder, at most 16 GiB; 0 where that is not worth it.
uint64_t UsualCacheBytes(const std::string& folder);

}  // namespace bulkhead

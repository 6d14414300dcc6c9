#pragma once

#include "absl/status/statusor.h"
#include "server/app/config.h"
#include "server/service/loader_server.h"

namespace bulkhead {

// The service's configuration on this machine: fills in defaults, creates folders, checks sizes.
// INVALID_ARGUMENT, with the mistake and what to write instead.
absl::StatusOr<LoaderServer::Config> MakeServerConfig(const DaemonOptions& options);

}  // namespace bulkhead

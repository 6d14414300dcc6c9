#ifndef BULKHEAD_SERVER_APP_SERVER_CONFIG_H_
#define BULKHEAD_SERVER_APP_SERVER_CONFIG_H_

#include "absl/status/statusor.h"
#include "server/app/config.h"
#include "server/service/loader_server.h"

namespace bulkhead {

// The service's configuration on this machine: fills in defaults, creates folders, checks sizes.
// INVALID_ARGUMENT, with the mistake and what to write instead.
absl::StatusOr<LoaderServer::Config> MakeServerConfig(const DaemonOptions& options);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_APP_SERVER_CONFIG_H_

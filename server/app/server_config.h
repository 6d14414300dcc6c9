#ifndef BULKHEAD_SERVER_APP_SERVER_CONFIG_H_
#define BULKHEAD_SERVER_APP_SERVER_CONFIG_H_

#include "absl/status/statusor.h"
#include "server/app/config.h"
#include "server/service/loader_server.h"

namespace bulkhead {

// What the options mean on this machine: defaults filled in, folders made, sizes checked.
// INVALID_ARGUMENT with what is wrong and what to write instead.
absl::StatusOr<LoaderServer::Config> MakeServerConfig(const DaemonOptions& options);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_APP_SERVER_CONFIG_H_

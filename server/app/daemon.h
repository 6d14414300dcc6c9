#ifndef BULKHEAD_SERVER_APP_DAEMON_H_
#define BULKHEAD_SERVER_APP_DAEMON_H_

#include "absl/status/statusor.h"
#include "server/app/config.h"
#include "server/os/files/log_output.h"
#include "server/service/loader_server.h"

namespace bulkhead {

// What the options mean on this machine: defaults filled in, folders made, sizes checked.
// INVALID_ARGUMENT with what is wrong and what to write instead.
absl::StatusOr<LoaderServer::Config> MakeServerConfig(const DaemonOptions& options);

// Runs the service until SIGTERM, SIGINT, or the end of the watched process or processes; then
// stops it in good order. What workers say goes to `log`. Where a call does not end, as its storage
// hangs, it ends the process itself.
absl::Status RunDaemon(const DaemonOptions& options, LogOutput& log);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_APP_DAEMON_H_

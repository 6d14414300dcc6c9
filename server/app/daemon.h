#ifndef BULKHEAD_SERVER_APP_DAEMON_H_
#define BULKHEAD_SERVER_APP_DAEMON_H_

#include "absl/status/status.h"
#include "server/app/config.h"
#include "server/os/files/log_output.h"

namespace bulkhead {

// Runs the service until SIGTERM, SIGINT, or the end of the watched process or processes; then
// stops it in good order. What workers say goes to `log`. Where a call does not end, as its storage
// hangs, it ends the process itself.
absl::Status RunDaemon(const DaemonOptions& options, LogOutput& log);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_APP_DAEMON_H_

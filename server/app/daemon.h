#ifndef BULKHEAD_SERVER_APP_DAEMON_H_
#define BULKHEAD_SERVER_APP_DAEMON_H_

#include <functional>

#include "absl/status/statusor.h"
#include "server/app/config.h"
#include "server/os/files/log_output.h"

namespace bulkhead {

// The options as command line, environment and file say them now. Blocks for the disk.
using ReadOptions = std::function<absl::StatusOr<DaemonOptions>()>;

// Runs the service until SIGTERM, SIGINT, or the end of the watched process or processes; then
// stops it in good order. SIGHUP makes it read its options and the files of TLS again: log level
// and rights are taken over. SIGUSR1 makes it log what it is doing. A service manager that asked
// for it (NOTIFY_SOCKET) is told when the service serves, reads its options, and stops. What
// workers say goes to `log`. Where a call does not end, as its storage hangs, it ends the process
// itself.
absl::Status RunDaemon(const DaemonOptions& options, LogOutput& log, ReadOptions read_options);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_APP_DAEMON_H_

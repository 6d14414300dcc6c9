#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "server/app/config.h"
#include "server/os/files/log_output.h"

namespace bulkhead {

// The current options from command line, environment and file. Blocks for the disk.
using ReadOptions = std::function<absl::StatusOr<DaemonOptions>()>;

// Runs the service until SIGTERM, SIGINT, or the end of the watched process or processes; then
// stops it in order. SIGHUP makes it read its options and TLS files again, and apply log level and
// rights. SIGUSR1 makes it log what it is doing. A service manager that sets NOTIFY_SOCKET is
// notified when the service is ready, reads its options, and stops. Workers' output goes to `log`.
// If a call does not end because its storage hangs, it ends the process itself.
absl::Status RunDaemon(const DaemonOptions& options, LogOutput& log, ReadOptions read_options);

}  // namespace bulkhead

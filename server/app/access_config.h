#ifndef BULKHEAD_SERVER_APP_ACCESS_CONFIG_H_
#define BULKHEAD_SERVER_APP_ACCESS_CONFIG_H_

#include "absl/status/status.h"
#include "server/app/config.h"
#include "server/service/loader_server.h"

namespace bulkhead {

// Sets TLS and rights of `config`, which has its address: who may connect, and who may call what.
// Checks the address of the metrics. Reads the files of TLS. INVALID_ARGUMENT with what is wrong
// and what to write instead.
absl::Status ConfigureAccess(const DaemonOptions& options, LoaderServer::Config& config);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_APP_ACCESS_CONFIG_H_

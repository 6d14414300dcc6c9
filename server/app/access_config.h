#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/app/config.h"
#include "server/service/loader_server.h"

namespace bulkhead {

// Sets TLS and rights of `config`, whose address is set: which clients may connect, and which calls
// they may make. Checks the metrics address. Reads the TLS files. INVALID_ARGUMENT, with the
// mistake and what to write instead.
absl::Status ConfigureAccess(const DaemonOptions& options, LoaderServer::Config& config);

// Only the rights, at an address that `options` may have changed since. Reads no file, so what is
// wrong with one does not matter. INVALID_ARGUMENT as above.
absl::StatusOr<AccessRights> RightsOf(const DaemonOptions& options, const std::string& address,
                                      std::shared_ptr<const TlsFiles> files);

}  // namespace bulkhead

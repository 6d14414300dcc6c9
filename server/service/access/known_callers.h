#ifndef BULKHEAD_SERVER_SERVICE_ACCESS_KNOWN_CALLERS_H_
#define BULKHEAD_SERVER_SERVICE_ACCESS_KNOWN_CALLERS_H_

#include <grpc/grpc_security.h>

#include <functional>

#include "server/service/access/access_rights.h"

namespace bulkhead {

// Calls of all callers at once, and a second in the long run, beyond which they are a flood.
inline constexpr double kFloodBurst = 2000;
inline constexpr double kFloodPerSecond = 1000;

// Refuses calls of callers without any right to gRPC's own services (its health check), as their
// headers come: gRPC reads the requests of these before anybody else sees the call. Our own service
// checks each call itself, and tells the log. To be passed to
// grpc_server_credentials_set_auth_metadata_processor. Calls `on_flood` when calls come too
// fast, on gRPC's threads.
grpc_auth_metadata_processor KnownCallersOnly(AccessRights access, std::function<void()> on_flood);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_ACCESS_KNOWN_CALLERS_H_

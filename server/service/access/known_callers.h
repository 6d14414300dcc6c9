#ifndef BULKHEAD_SERVER_SERVICE_ACCESS_KNOWN_CALLERS_H_
#define BULKHEAD_SERVER_SERVICE_ACCESS_KNOWN_CALLERS_H_

#include <grpc/grpc_security.h>

#include "server/service/access/access_rights.h"

namespace bulkhead {

// Refuses calls of callers without any right to gRPC's own services (health, reflection), as their
// headers come: gRPC reads the requests of these before anybody else sees the call. Our own service
// checks each call itself, and tells the log. To be passed to
// grpc_server_credentials_set_auth_metadata_processor.
grpc_auth_metadata_processor KnownCallersOnly(AccessRights access);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_ACCESS_KNOWN_CALLERS_H_

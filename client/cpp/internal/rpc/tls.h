#pragma once

#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bulkhead/credentials.h"

namespace bulkhead::client_internal {

// `credentials` with what their environment variables say in place of empty fields.
Credentials WithEnvironment(Credentials credentials);

// What gRPC takes for a connection over TCP, of the files as they are now. INVALID_ARGUMENT
// (CREDENTIALS_INVALID) names the file and what is wrong with it, or the one that is missing; the
// metadata `field` is the field of Credentials that names the file.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> TcpCredentials(
    const Credentials& credentials);

// Why no connection to "host:port" came about, where TLS is the reason, as a sentence without a
// beginning: "its certificate has expired; …". Empty when it is not. gRPC itself says no more than
// that a socket was closed. Makes a connection of its own; blocks for as long as the host's name is
// looked up, then at most 2 s ($BULKHEAD_TLS_EXPLAIN_SECONDS) for each of its addresses and for
// each step over TLS.
std::string ExplainTls(const std::string& target, const Credentials& credentials);

}  // namespace bulkhead::client_internal

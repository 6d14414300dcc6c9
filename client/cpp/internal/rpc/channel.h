#pragma once

#include <grpc/support/time.h>
#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bulkhead/credentials.h"
#include "client/cpp/internal/base/error.h"

namespace bulkhead::client_internal {

// What a service takes of one request (kMaxRequestBytes in server/service/loader_server.cc).
inline constexpr int kMaxRequestBytes = 8 << 20;

// A channel to `target` with this library's settings, on a connection of its own. A Unix socket is
// connected at once: SERVICE_UNAVAILABLE when nothing listens, UNTRUSTED_SERVICE when the wrong
// user does (CheckSocketUser). CREDENTIALS_INVALID as TcpCredentials. The credentials are those of
// ResolveTarget. `authority`: the name in the service's certificate, if that is not the target's.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& target,
                                                           const Credentials& credentials,
                                                           Caller caller = Caller::kOneCall,
                                                           const std::string& authority = "");

// FromRpcStatus for a call that no service ever answered: says what is wrong with TLS, if that is
// why. May block as ExplainTls does.
absl::Status FailureToConnect(const grpc::Status& status, const std::string& target,
                              const Credentials& credentials, Caller caller = Caller::kOneCall);

// FAILED_PRECONDITION (FORKED) when this process was forked from one that had made channels: gRPC's
// threads did not come along, so a call would hang.
absl::Status CheckNotForked();

// What gRPC takes as a deadline: `allowed` from now on, by the monotonic clock.
gpr_timespec GrpcDeadline(absl::Duration allowed);

// The path of a target of gRPC's form unix:/path or unix:///path; empty for any other.
std::string UnixPathOf(const std::string& target);

}  // namespace bulkhead::client_internal

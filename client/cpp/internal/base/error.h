#ifndef BULKHEAD_CLIENT_CPP_INTERNAL_BASE_ERROR_H_
#define BULKHEAD_CLIENT_CPP_INTERNAL_BASE_ERROR_H_

#include <grpcpp/support/status.h>

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bulkhead/error.h"

namespace bulkhead::client_internal {

// A status that carries `reason` and `metadata` as a google.rpc.ErrorInfo payload.
absl::Status MakeClientError(absl::StatusCode code, absl::string_view reason,
                             absl::string_view message,
                             std::map<std::string, std::string> metadata = {});

// Something from the wire that the protocol does not allow.
absl::Status ProtocolError(absl::string_view message);

// What a loader says in a forked child of the process that opened it.
absl::Status ForkedError();

// The error of a call to `target`: code, message and ErrorInfo of the service where it answered,
// else what gRPC noticed, in words that say what to do. `status` is not OK. `embedded`: the service
// is one of our own.
absl::Status FromRpcStatus(const grpc::Status& status, absl::string_view target,
                           bool embedded = false);

}  // namespace bulkhead::client_internal

#endif  // BULKHEAD_CLIENT_CPP_INTERNAL_BASE_ERROR_H_

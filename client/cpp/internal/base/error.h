#pragma once

#include <grpcpp/support/status.h>

#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bulkhead/error.h"

namespace bulkhead::client_internal {

// The service's reason for a call that may be tried again a little later.
inline constexpr char kOpenedTooOften[] = "OPENED_TOO_OFTEN";

// A status that carries `reason` and `metadata` as a google.rpc.ErrorInfo payload.
absl::Status MakeClientError(absl::StatusCode code, absl::string_view reason,
                             absl::string_view message,
                             std::map<std::string, std::string> metadata = {});

// Something from the wire that the protocol does not allow.
absl::Status ProtocolError(absl::string_view message);

// What whoever waits for a loader hears when it is closed.
absl::Status ClosedError();

// What a loader says in a forked child of the process that opened it.
absl::Status ForkedError();

// What called a service, which decides what to do when the service is gone.
enum class Caller {
  kOneCall,
  kStream,     // which can go on from its last cursor
  kOwnStream,  // the same, of a service that this client started
};

// The error of a call to `target`: code, message and ErrorInfo of the service where it answered,
// else what gRPC noticed, in words that say what to do. `status` is not OK.
absl::Status FromRpcStatus(const grpc::Status& status, absl::string_view target,
                           Caller caller = Caller::kOneCall);
// The message of a stream's error without what a program should do, where the loader does it.
std::string WithoutAdvice(const absl::Status& lost);

}  // namespace bulkhead::client_internal

// The two macros of server/base/error.h, of which this library includes nothing.
//
// Returns the status of `expression` from the enclosing function unless it is OK.
#define BULKHEAD_RETURN_IF_ERROR(expression)                                  \
  do {                                                                        \
    if (::absl::Status bulkhead_status = (expression); !bulkhead_status.ok()) \
      return bulkhead_status;                                                 \
  } while (false)

// `lhs` = the value of the StatusOr `expression`; returns its status from the enclosing function
// unless it is OK.
#define BULKHEAD_ASSIGN_OR_RETURN(lhs, expression) \
  BULKHEAD_ASSIGN_OR_RETURN_IMPL(BULKHEAD_CONCAT(bulkhead_or_, __LINE__), lhs, expression)
#define BULKHEAD_ASSIGN_OR_RETURN_IMPL(temporary, lhs, expression) \
  auto temporary = (expression);                                   \
  if (!temporary.ok()) return std::move(temporary).status();       \
  lhs = std::move(temporary).value()
#define BULKHEAD_CONCAT(a, b) BULKHEAD_CONCAT_IMPL(a, b)
#define BULKHEAD_CONCAT_IMPL(a, b) a##b

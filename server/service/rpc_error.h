#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace bulkhead {

// A status as gRPC sends it: the same code and message, with its ErrorInfo as google.rpc.Status in
// the trailer `grpc-status-details-bin`. Messages are cut at 4 KiB, encoded, to keep trailers below
// gRPC's limit of 8 KiB.
grpc::Status ToRpcStatus(const absl::Status& status);

}  // namespace bulkhead

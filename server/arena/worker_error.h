#ifndef BULKHEAD_SERVER_ARENA_WORKER_ERROR_H_
#define BULKHEAD_SERVER_ARENA_WORKER_ERROR_H_

#include "absl/status/status.h"
#include "bulkhead/internal/v1/worker.pb.h"

namespace bulkhead {

// A status as it crosses the process wall: code, message, reason and metadata survive. What a
// worker says is data, never trusted: an unknown code becomes UNKNOWN, OK becomes INTERNAL.
internal::v1::WorkerError ToWorkerError(const absl::Status& status);
absl::Status StatusFromWorkerError(const internal::v1::WorkerError& error);

// Makes what a worker's message has for people printable, as PrintableLines: it quotes exceptions
// of the user's code, and stands in logs, on terminals and in the status. Metadata are for programs
// and stay as they are: a file is found by what it is called.
void MakePrintable(internal::v1::FromWorker& message);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_ARENA_WORKER_ERROR_H_

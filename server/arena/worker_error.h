#pragma once

#include "absl/status/status.h"
#include "bulkhead/internal/v1/worker.pb.h"

namespace bulkhead {

// A status on its way from worker to supervisor: code, message, reason and metadata survive. A
// worker's status is untrusted: an unknown code becomes UNKNOWN, OK becomes INTERNAL.
internal::v1::WorkerError ToWorkerError(const absl::Status& status);
absl::Status StatusFromWorkerError(const internal::v1::WorkerError& error);

// Makes the texts in a worker's message printable (PrintableLines), because they quote user code's
// exceptions and appear in logs, terminals and the status. Metadata stays unchanged: programs use
// it, for example to find a file by its name.
void MakePrintable(internal::v1::FromWorker& message);

}  // namespace bulkhead

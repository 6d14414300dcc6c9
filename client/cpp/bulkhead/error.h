#ifndef BULKHEAD_CLIENT_CPP_BULKHEAD_ERROR_H_
#define BULKHEAD_CLIENT_CPP_BULKHEAD_ERROR_H_

#include <map>
#include <string>

#include "absl/status/status.h"

namespace bulkhead {

// Reasons that this library adds to those of the service (docs/errors.md lists all).
namespace client_reason {
// No service program was found to start.
inline constexpr char kServiceNotFound[] = "SERVICE_NOT_FOUND";
// The service program was started but did not become ready.
inline constexpr char kServiceStartFailed[] = "SERVICE_START_FAILED";
// The service cannot be reached, or died.
inline constexpr char kServiceUnavailable[] = "SERVICE_UNAVAILABLE";
// Nothing arrived in time.
inline constexpr char kDeadlineExceeded[] = "DEADLINE_EXCEEDED";
// The service was silent for so long that it is treated as lost.
inline constexpr char kServiceSilent[] = "SERVICE_SILENT";
// Shared memory was requested (LoaderOptions::transport) and is not available.
inline constexpr char kTransportUnavailable[] = "TRANSPORT_UNAVAILABLE";
// The program holds all batches that the stream allows at a time.
inline constexpr char kSlotsExhausted[] = "SLOTS_EXHAUSTED";
// The system gives no more threads.
inline constexpr char kOutOfThreads[] = "OUT_OF_THREADS";
// A loader was used in a forked child of its process.
inline constexpr char kForked[] = "FORKED";
// The other side sent something that the protocol does not allow.
inline constexpr char kProtocolViolation[] = "PROTOCOL_VIOLATION";
// The loader was closed.
inline constexpr char kLoaderClosed[] = "LOADER_CLOSED";
// What listens on a Unix socket belongs to a user that is not trusted.
inline constexpr char kUntrustedService[] = "UNTRUSTED_SERVICE";
// A file of Credentials cannot be used.
inline constexpr char kCredentialsInvalid[] = "CREDENTIALS_INVALID";
// An argument is invalid.
inline constexpr char kInvalidArgument[] = "INVALID_ARGUMENT";
}  // namespace client_reason

// The machine-readable reason of an error from this library or from the service, such as
// "CORRUPT_IMAGE"; empty for OK and for a status that carries none.
std::string ErrorReason(const absl::Status& status);

// The details beside the reason, such as "file", "offset", "line"; empty when there is nothing.
std::map<std::string, std::string> ErrorMetadata(const absl::Status& status);

}  // namespace bulkhead

#endif  // BULKHEAD_CLIENT_CPP_BULKHEAD_ERROR_H_

#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// The machine-readable part of an error. It travels as google.rpc.ErrorInfo (domain "bulkhead");
// docs/errors.md lists the reasons.
struct ErrorInfo {
  std::string reason;                           // UPPER_SNAKE_CASE, one of namespace reason below
  std::map<std::string, std::string> metadata;  // e.g. file, offset, record, stage, position, line
};

// Reasons are part of the public API: they may be added, never renamed.
namespace reason {
inline constexpr absl::string_view kSpecInvalid = "SPEC_INVALID";
inline constexpr absl::string_view kFileNotFound = "FILE_NOT_FOUND";
inline constexpr absl::string_view kFileUnreadable = "FILE_UNREADABLE";
inline constexpr absl::string_view kFileEmpty = "FILE_EMPTY";
inline constexpr absl::string_view kFileChanged = "FILE_CHANGED";
// Stays inside the service: a lease read bytes of an object that are not on this host yet.
inline constexpr absl::string_view kNotFetched = "NOT_FETCHED";
inline constexpr absl::string_view kPathNotAllowed = "PATH_NOT_ALLOWED";
inline constexpr absl::string_view kNoSamples = "NO_SAMPLES";
inline constexpr absl::string_view kListInvalid = "LIST_INVALID";
inline constexpr absl::string_view kCorruptRecord = "CORRUPT_RECORD";
inline constexpr absl::string_view kTruncatedRecord = "TRUNCATED_RECORD";
inline constexpr absl::string_view kRecordTooLarge = "RECORD_TOO_LARGE";
inline constexpr absl::string_view kMalformedExample = "MALFORMED_EXAMPLE";
inline constexpr absl::string_view kMissingFeature = "MISSING_FEATURE";
inline constexpr absl::string_view kWrongDType = "WRONG_DTYPE";
inline constexpr absl::string_view kWrongShape = "WRONG_SHAPE";
inline constexpr absl::string_view kOverBound = "OVER_BOUND";
inline constexpr absl::string_view kCorruptImage = "CORRUPT_IMAGE";
inline constexpr absl::string_view kTruncatedImage = "TRUNCATED_IMAGE";
inline constexpr absl::string_view kImageTooLarge = "IMAGE_TOO_LARGE";
inline constexpr absl::string_view kUnsupportedImage = "UNSUPPORTED_IMAGE";
inline constexpr absl::string_view kImageTooSmall = "IMAGE_TOO_SMALL";
inline constexpr absl::string_view kImageSizesDiffer = "IMAGE_SIZES_DIFFER";
inline constexpr absl::string_view kBadCoordinates = "BAD_COORDINATES";
inline constexpr absl::string_view kRowsDiffer = "ROWS_DIFFER";
inline constexpr absl::string_view kIndexDamaged = "INDEX_DAMAGED";
inline constexpr absl::string_view kStageFailed = "STAGE_FAILED";
inline constexpr absl::string_view kStageUnusable = "STAGE_UNUSABLE";
inline constexpr absl::string_view kLabelOutOfRange = "LABEL_OUT_OF_RANGE";
inline constexpr absl::string_view kTooManySubstitutions = "TOO_MANY_SUBSTITUTIONS";
inline constexpr absl::string_view kPluginMissing = "PLUGIN_MISSING";
inline constexpr absl::string_view kQuarantined = "QUARANTINED";
inline constexpr absl::string_view kPoisonSample = "POISON_SAMPLE";
inline constexpr absl::string_view kQuarantineFull = "QUARANTINE_FULL";
inline constexpr absl::string_view kCodeChanged = "CODE_CHANGED";
inline constexpr absl::string_view kStorageStalled = "STORAGE_STALLED";
inline constexpr absl::string_view kStreamIdle = "STREAM_IDLE";
inline constexpr absl::string_view kInvalidArgument = "INVALID_ARGUMENT";
inline constexpr absl::string_view kWorkerCrashLoop = "WORKER_CRASH_LOOP";
inline constexpr absl::string_view kCursorMismatch = "CURSOR_MISMATCH";
inline constexpr absl::string_view kSuperseded = "SUPERSEDED";
inline constexpr absl::string_view kBudgetExceeded = "BUDGET_EXCEEDED";
inline constexpr absl::string_view kWorkerStuck = "WORKER_STUCK";
inline constexpr absl::string_view kShuttingDown = "SHUTTING_DOWN";
inline constexpr absl::string_view kTransportUnavailable = "TRANSPORT_UNAVAILABLE";
inline constexpr absl::string_view kServiceSilent = "SERVICE_SILENT";
inline constexpr absl::string_view kSlotsExhausted = "SLOTS_EXHAUSTED";
inline constexpr absl::string_view kTooManyCalls = "TOO_MANY_CALLS";
inline constexpr absl::string_view kOpenedTooOften = "OPENED_TOO_OFTEN";
inline constexpr absl::string_view kAccessDenied = "ACCESS_DENIED";
inline constexpr absl::string_view kDatasetRefused = "DATASET_REFUSED";
inline constexpr absl::string_view kDatasetUnknown = "DATASET_UNKNOWN";
inline constexpr absl::string_view kOutOfThreads = "OUT_OF_THREADS";
inline constexpr absl::string_view kProtocolViolation = "PROTOCOL_VIOLATION";
inline constexpr absl::string_view kInternal = "INTERNAL";
}  // namespace reason

// A status with an ErrorInfo. `message` says what was wrong, where, and what to do.
absl::Status MakeError(absl::StatusCode code, absl::string_view reason, absl::string_view message,
                       std::map<std::string, std::string> metadata = {});

// An error of one sample that is a pure function of (record bytes, spec, key), so that the error
// policy applies to it. All other errors (a vanished file, exhausted memory) fail the stream or are
// retried. Code DATA_LOSS.
absl::Status SampleError(absl::string_view reason, absl::string_view message,
                         std::map<std::string, std::string> metadata = {});

// Whether `status` was made by SampleError, even if annotated since.
bool IsSampleError(const absl::Status& status);

// The ErrorInfo of `status`; absent if it has none.
std::optional<ErrorInfo> GetErrorInfo(const absl::Status& status);

// `status` with "prefix: " before its message, and with the `metadata` whose keys it lacks: an
// error gains file, offset, record and stage as it rises. OK stays OK.
absl::Status Annotate(const absl::Status& status, absl::string_view prefix,
                      std::map<std::string, std::string> metadata = {});

}  // namespace bulkhead

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

"""What can go wrong, as exceptions. All carry a machine-readable reason and metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Mapping, Optional

from ._rpc import proto

if TYPE_CHECKING:
    import grpc


class BulkheadError(Exception):
    """Base of all errors of this package.

    `reason` is an upper-case word such as "CORRUPT_IMAGE"; `metadata` says more, such as the file.
    """

    default_reason = "INTERNAL"
    default_code = "INTERNAL"
    # What its reader has to do, unless the loader does that by itself.
    _advice = ""

    def __init__(
        self,
        message: str,
        reason: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        code: str = "",
    ):
        super().__init__(message)
        self.message = message
        self.reason = reason or self.default_reason
        self.metadata = dict(metadata or {})
        self.code = code or self.default_code  # name of a gRPC status code

    def again(self) -> "BulkheadError":
        """The same error without a traceback.

        To be kept, and raised more than once: a traceback keeps the variables of the functions it
        passed through, batches among them.
        """
        return self._saying(self.message)

    def _saying(self, message: str) -> "BulkheadError":
        """The same error with another message."""
        error = type(self)(message, self.reason, self.metadata, self.code)
        error._advice = self._advice
        return error

    def _final(self) -> "BulkheadError":
        """The same error, for who has to act on it."""
        message = f"{self.message}; {self._advice}" if self._advice else self.message
        return type(self)(message, self.reason, self.metadata, self.code)

    def __reduce__(self):
        # Errors cross process walls in many trainers.
        return (type(self), (self.message, self.reason, self.metadata, self.code))


class InvalidArgument(BulkheadError, ValueError):
    """An argument is invalid."""

    default_reason = "INVALID_ARGUMENT"
    default_code = "INVALID_ARGUMENT"


class CredentialsInvalid(InvalidArgument):
    """A file of Credentials cannot be used, or one is missing; the message names it."""

    default_reason = "CREDENTIALS_INVALID"


class AccessDenied(BulkheadError, PermissionError):
    """The service does not know this client, or has not given it the right for this call."""

    default_reason = "ACCESS_DENIED"
    default_code = "PERMISSION_DENIED"


class UntrustedService(BulkheadError, PermissionError):
    """What listens on a Unix socket belongs to a user that is not trusted."""

    default_reason = "UNTRUSTED_SERVICE"
    default_code = "PERMISSION_DENIED"


class UnknownOutput(InvalidArgument, KeyError):
    """A batch has no output of that name; the message names those that it has."""

    __str__ = BulkheadError.__str__  # KeyError would quote it


class SpecError(BulkheadError, ValueError):
    """The spec is wrong; the message names file, line and column."""

    default_reason = "SPEC_INVALID"
    default_code = "INVALID_ARGUMENT"


class DataError(BulkheadError):
    """The data is missing or damaged, or its storage does not answer; `file` and `offset` say where, when known."""

    @property
    def file(self) -> Optional[str]:
        return self.metadata.get("file")

    @property
    def offset(self) -> Optional[int]:
        text = self.metadata.get("offset", "")
        return int(text) if text.isdigit() else None


class CursorMismatch(BulkheadError):
    """The cursor belongs to another data set, order or pipeline."""

    default_reason = "CURSOR_MISMATCH"


class ResourceExhausted(BulkheadError):
    """A resource is exhausted; base of the errors that say which."""

    default_reason = "RESOURCE_EXHAUSTED"
    default_code = "RESOURCE_EXHAUSTED"


class OutOfThreads(ResourceExhausted):
    """The system gave no more threads; the call may be repeated."""

    default_reason = "OUT_OF_THREADS"


class BudgetExceeded(ResourceExhausted):
    """The service has no memory left in its budget for this stream."""

    default_reason = "BUDGET_EXCEEDED"


class SlotsExhausted(ResourceExhausted):
    """The program holds every batch of the shared memory; `next` goes on when one is released."""

    default_reason = "SLOTS_EXHAUSTED"


class TransportUnavailable(BulkheadError):
    """The requested transport is not available; the message says why."""

    default_reason = "TRANSPORT_UNAVAILABLE"
    default_code = "FAILED_PRECONDITION"


class WorkerError(BulkheadError):
    """The service's workers keep dying."""

    default_reason = "WORKER_CRASH_LOOP"


class CodeChanged(BulkheadError):
    """Workers run different versions of the user's code; the message names the file."""

    default_reason = "CODE_CHANGED"


class StreamIdle(BulkheadError):
    """The trainer took no batch for so long that others got the stream's memory."""

    default_reason = "STREAM_IDLE"


class Superseded(BulkheadError):
    """A newer consumer of the same name and rank took the stream over."""

    default_reason = "SUPERSEDED"


class ProtocolError(BulkheadError):
    """Client and service do not understand each other."""

    default_reason = "PROTOCOL_VIOLATION"


class ServiceUnavailable(BulkheadError, ConnectionError):
    """The service cannot be reached, or died."""

    default_reason = "SERVICE_UNAVAILABLE"
    default_code = "UNAVAILABLE"


class ServiceNotFound(ServiceUnavailable):
    """No service program was found to start."""

    default_reason = "SERVICE_NOT_FOUND"
    default_code = "NOT_FOUND"


class ServiceStartFailed(ServiceUnavailable):
    """The service program was started but did not become ready."""

    default_reason = "SERVICE_START_FAILED"
    default_code = "UNAVAILABLE"


class DeadlineExceeded(BulkheadError, TimeoutError):
    """Nothing arrived in time."""

    default_reason = "DEADLINE_EXCEEDED"
    default_code = "DEADLINE_EXCEEDED"


class EpochsExhausted(BulkheadError):
    """A loop began after the last epoch that the spec asks for."""

    default_reason = "EPOCHS_EXHAUSTED"
    default_code = "OUT_OF_RANGE"


class LoaderClosed(BulkheadError):
    """The loader was closed, or belongs to the process that this one was forked from."""

    default_reason = "LOADER_CLOSED"
    default_code = "CANCELLED"


# Those that a service names by their reason.
_BY_REASON = {
    error.default_reason: error
    for error in (
        AccessDenied, SpecError, CursorMismatch, BudgetExceeded, WorkerError, CodeChanged, StreamIdle, Superseded,
        ProtocolError, InvalidArgument, TransportUnavailable,
    )
}
_DATA_REASONS = frozenset(
    """FILE_NOT_FOUND FILE_UNREADABLE FILE_EMPTY FILE_CHANGED STORAGE_STALLED PATH_NOT_ALLOWED NO_SAMPLES
    LIST_INVALID CORRUPT_RECORD TRUNCATED_RECORD RECORD_TOO_LARGE MALFORMED_EXAMPLE MISSING_FEATURE
    WRONG_DTYPE WRONG_SHAPE OVER_BOUND CORRUPT_IMAGE TRUNCATED_IMAGE IMAGE_TOO_LARGE
    UNSUPPORTED_IMAGE IMAGE_TOO_SMALL IMAGE_SIZES_DIFFER LABEL_OUT_OF_RANGE
    BAD_COORDINATES ROWS_DIFFER TOO_MANY_SUBSTITUTIONS
    PLUGIN_MISSING""".split()
)


def _class_of(reason: str, code: str) -> type:
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    if reason in _DATA_REASONS or code == "DATA_LOSS":
        return DataError
    if code == "UNAVAILABLE":
        return ServiceUnavailable
    if code == "DEADLINE_EXCEEDED":
        return DeadlineExceeded
    return BulkheadError


def _error_info(trailers):
    for key, value in trailers or ():
        if key != "grpc-status-details-bin":
            continue
        try:
            for detail in proto.RpcStatus.FromString(value).details:
                if detail.type_url.endswith("/google.rpc.ErrorInfo"):
                    return proto.RpcErrorInfo.FromString(detail.value)
        except Exception:  # a peer's nonsense must not hide the status itself
            return None
    return None


def from_rpc(error: grpc.RpcError, target: str, embedded: bool = False) -> BulkheadError:
    """The exception for a failed call to `target`; `embedded`: to a service of our own."""
    code, text = error.code().name, error.details() or ""
    info = _error_info(error.trailing_metadata())
    if info is not None:
        return _class_of(info.reason, code)(text, info.reason, dict(info.metadata), code)
    metadata = {"target": target}
    # A service whose memory for requests is full ends calls of any client.
    reset = code == "RESOURCE_EXHAUSTED" and "RST_STREAM" in text
    # UNKNOWN is gRPC's word when the connection goes while a call begins.
    if reset or code in ("UNAVAILABLE", "CANCELLED", "UNKNOWN"):
        lost = ServiceUnavailable(
            f"the service at {target} cannot be reached or has ended ({text})",
            metadata=metadata,
            code="UNAVAILABLE",
        )
        lost._advice = (
            "it was started for this job, and the next loader starts another; go on from the last cursor"
            if embedded
            else "check that bulkheadd runs there, then go on from the last cursor"
        )
        return lost
    if code == "DEADLINE_EXCEEDED":
        return DeadlineExceeded(
            f"the service at {target} did not answer in time", metadata=metadata, code=code
        )
    if code == "UNIMPLEMENTED":
        return ProtocolError(
            f"what listens at {target} is not a Bulkhead service ({text})",
            metadata=metadata,
            code=code,
        )
    return BulkheadError(f"the service at {target} failed: {text}", code, metadata, code)

"""What an object server has been asked, and how it is to fail."""

import dataclasses
import math
import threading
import time

CODES = {400: "InvalidRequest", 403: "AccessDenied", 404: "NoSuchKey", 500: "InternalError", 503: "SlowDown"}
WRONG = {"body": "wrong body", "header": "wrong header", "whole": "whole"}


@dataclasses.dataclass
class Request:
    """A line of the log. `method`: of HTTP, or LIST (`key` is the prefix then) or STS. `begin` and `end` are the first
    and the last byte of a Range, as asked until the object is found. `time`: of the arrival, on the monotonic clock.
    `status` is 0 while nothing has been answered. `bytes_sent`: of the body."""

    method: str
    bucket: str
    key: str
    headers: dict[str, str]
    begin: int | None = None
    end: int | None = None
    time: float = dataclasses.field(default_factory=time.monotonic)
    status: int = 0
    bytes_sent: int = 0

    def matches(self, method: str | None, key: str) -> bool:
        """`key`: a part of "bucket/key"."""
        return method in (None, self.method) and key in f"{self.bucket}/{self.key}"


@dataclasses.dataclass
class Fault:
    kind: str
    left: float  # so many requests; inf: until heal()
    method: str | None = None
    key: str = ""
    status: int = 0
    code: str = ""
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    seconds: float = 0
    shift: int = 0

    def fits(self, request: Request) -> bool:
        wasted = request.begin is None and self.kind in ("wrong header", "whole")
        return self.left > 0 and not wasted and request.matches(self.method, self.key)


class Faults:
    """The faults that are due. Thread-safe. A request meets at most one delay and one fault of another kind.

    A fault applies to the `next` requests, or with None to all until heal(). `where` restricts them: `method` as in the
    log, `key` a part of "bucket/key".
    """

    def __init__(self) -> None:
        self._faults_lock = threading.Lock()
        self._due: list[Fault] = []

    def fail(
        self,
        next_requests: int | None = 1,
        status: int = 503,
        *,
        code: str = "",
        retry_after: object = None,
        headers: dict[str, str] | None = None,
        **where: str,
    ) -> None:
        """Answers `status` with S3's error `code`, "Retry-After: `retry_after`" and further `headers`."""
        headers = {**(headers or {}), **({} if retry_after is None else {"Retry-After": str(retry_after)})}
        code = code or CODES.get(status, "UnknownError")
        self._add("fail", next_requests, where, status=status, code=code, headers=headers)

    def reset(self, next: int | None = 1, *, middle: bool = False, **where: str) -> None:
        """Ends the connection by RST: before the answer, or in the middle of its body."""
        self._add("reset in the middle" if middle else "reset", next, where)

    def cut(self, next: int | None = 1, **where: str) -> None:
        """Announces the whole body, sends half of it and closes the connection."""
        self._add("cut", next, where)

    def wrong_bytes(self, next: int | None = 1, *, how: str = "body", shift: int = 1, **where: str) -> None:
        """`how`: "body" sends the bytes that lie `shift` further on under the right header; "header" shifts only
        Content-Range; "whole" answers 200 and the whole object to a request with a range."""
        self._add(WRONG[how], next, {"method": "GET", **where}, shift=shift)

    def error_in_200(self, next: int | None = 1, **where: str) -> None:
        """Answers 200, and an error's XML as the body."""
        self._add("fail", next, where, status=200, code="InternalError")

    def delay(self, seconds: float, next: int | None = None, **where: str) -> None:
        """Waits before the first byte of the answer."""
        self._add("delay", next, where, seconds=seconds)

    def heal(self) -> None:
        """Ends all these faults."""
        with self._faults_lock:
            self._due.clear()

    def take_fault(self, request: Request, delays: bool = False) -> Fault:
        """Of kind "" when none is due."""
        with self._faults_lock:
            for fault in self._due:
                if delays == (fault.kind == "delay") and fault.fits(request):
                    fault.left -= 1
                    return fault
        return Fault("", 0)

    def _add(self, kind: str, next: int | None, where: dict[str, str], **options: object) -> None:
        with self._faults_lock:
            self._due.append(Fault(kind, math.inf if next is None else next, **where, **options))


class Throttle:
    """Shares `rate` bytes per second among all connections; None: as fast as it goes. Thread-safe."""

    def __init__(self, rate: float | None):
        self._lock = threading.Lock()
        self.set(rate)

    def set(self, rate: float | None) -> None:
        with self._lock:
            self._rate, self._free_at = rate, 0.0

    def chunk_bytes(self) -> int:
        rate = self._rate
        return 64 << 10 if rate is None else max(1, min(64 << 10, int(rate / 50)))

    def reserve(self, count_bytes: int) -> float:
        """The seconds to wait before these bytes may be sent."""
        with self._lock:
            if self._rate is None:
                return 0
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + count_bytes / self._rate
            return self._free_at - now

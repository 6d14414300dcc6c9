"""A stream that outlives its service."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from typing import Any, Callable, List, Optional

from .. import errors
from .._arena import door as door_module
from .._batch.batch import Batch, Layout
from .._rpc import live_streams, proto
from .._rpc.credentials import Credentials
from .._service.endpoint import Endpoint
from .events import Events, Progress
from .shared_memory import SharedMemory
from .stream import Stream
from .transport import UnusableArena, transport_unavailable

_log = logging.getLogger("bulkhead")

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0
# An embedded service that was lost so often in a row without giving a batch dies of what it serves.
_MOST_EMBEDDED_LOSSES = 5
_AGAIN_SECONDS = 30.0  # for a stream that was open a moment ago
_HEALER_END_SECONDS = 10.0
_TOO_OFTEN = "OPENED_TOO_OFTEN"
# A damaged index is built anew at the next opening.
_LOST = frozenset(
    (
        "SERVICE_UNAVAILABLE",
        "SERVICE_SILENT",
        "SHUTTING_DOWN",
        "SERVICE_START_FAILED",
        "INDEX_DAMAGED",
        "STREAM_IDLE",
        "DATASET_UNKNOWN",  # it was dropped since it was brought
        _TOO_OFTEN,
    )
)
# The service says that a later opening will be another matter.
SERVICES_WORDS = ("SHUTTING_DOWN", "INDEX_DAMAGED", _TOO_OFTEN)

# What a stream had that was open it gets again, as soon as others have given back what they got meanwhile,
# or the storage answers.
REFUSED = frozenset(("BUDGET_EXCEEDED", "TOO_MANY_CALLS", "STORAGE_STALLED"))


def is_loss(error: errors.BulkheadError) -> bool:
    if error.reason == "TRANSPORT_UNAVAILABLE":  # the door broke in mid-stream
        return error.code == "UNAVAILABLE"
    return error.reason in _LOST


ProgressFn = Callable[[Progress], None]

open_streams: "weakref.WeakSet[Any]" = weakref.WeakSet()
# A child that was forked cannot close those of its parent: their locks may be held for ever there.
os.register_at_fork(after_in_child=open_streams.clear)


def differences(before, now) -> List[str]:
    """What keeps a stream that was opened as `before` from going on with the same samples and bytes as `now`."""
    changed: List[str] = []
    if before.cursor.order_fingerprint != now.cursor.order_fingerprint:
        changed.append("the data or its order")
    if before.cursor.bytes_fingerprint != now.cursor.bytes_fingerprint:
        changed.append("the processing")
    if before.samples_per_epoch != now.samples_per_epoch:
        changed.append(
            f"the number of samples ({before.samples_per_epoch}, now {now.samples_per_epoch})"
        )
    if before.schema != now.schema:
        changed.append("the outputs")
    return changed


def _check_same(before, now) -> None:
    """Raises CursorMismatch if the stream would not continue with the same samples and bytes."""
    changed = differences(before, now)
    if changed:
        raise errors.CursorMismatch(
            "after the connection was lost the service offers another stream; changed: "
            + ", ".join(changed),
            code="FAILED_PRECONDITION",
        )


class HealingStream:
    """When a Stream is lost, opens another one after the last batch that arrived whole.

    next: what the old Stream holds ──drained──▶ healer thread: revive, open, compare → new Stream
    wait_opened: the same in the caller's time, from the service's first word on

    Name, rank and incarnation stay, so the service knows the consumer. The healer goes on when a
    `next` ran into its own timeout. It gives up when no batch arrived within `deadline` seconds, or
    when an embedded service died again and again without giving one.

    Transport: one door for all its Streams as long as it is kept (SharedMemory). What was demanded is
    demanded of the first Stream only: once a trainer runs, gRPC is better than an error.
    Thread-safe.
    """

    def __init__(
        self, endpoint: Endpoint, credentials: Credentials, open_request, deadline: float, transport: str
    ):
        """`transport`: "auto", "shm" or "grpc"."""
        self._endpoint = endpoint
        self._credentials = credentials
        self._open = open_request
        self._deadline = deadline
        self._transport = transport
        self._no_shm = ""  # why there is no shared memory now
        self._shm = SharedMemory(endpoint, credentials, transport != "grpc")
        self._changed = threading.Condition()
        self._first: Any = None  # Opened of the first stream
        self._candidate: Optional[Stream] = None  # the healer's, not yet opened
        self._healer: Optional[threading.Thread] = None
        self._failure: Optional[errors.BulkheadError] = None
        self._closed = False
        self._lost_since: Optional[float] = None  # less what was prepared in
        self._losses = 0
        self._pause = _FIRST_PAUSE
        self.reconnects = 0
        self.events = Events()
        try:
            self._stream = self._start(open_request, 0, door_module.WELCOME_SECONDS)
        except errors.ServiceUnavailable as failure:  # when a dataset is brought there
            self._shm.close()
            raise failure._final() from None
        except BaseException:
            self._shm.close()
            raise
        open_streams.add(self)

    def _start(self, open_request, first_sequence: int, patience: float) -> Stream:
        request = proto.Open()
        request.CopyFrom(open_request)
        request.name = self._endpoint.name_on_the_wire(open_request.name)
        if self._endpoint.upload is not None:
            self._endpoint.upload.send(self._endpoint.target, self._credentials, closed=lambda: self._closed)
        demanded = self._demands_shm()
        door = self._shm.open(patience, lambda: self._closed)
        self._no_shm = self._shm.reason
        if door is not None:
            request.arena_token = door.token
            request.announce_at_door = True
            request.transport = proto.TRANSPORT_SHM if demanded else proto.TRANSPORT_UNSPECIFIED
            # The batch that the training loop works on keeps its slot meanwhile.
            request.credits.batches = max(request.credits.batches, 2)
        elif demanded:
            raise transport_unavailable(self._no_shm, self._endpoint.target)
        else:
            request.transport = proto.TRANSPORT_GRPC
        return Stream(
            self._endpoint.target,
            self._credentials,
            request,
            door,
            self._endpoint.post_mortem if self._endpoint.embedded else None,
            first_sequence,
            self.events,
            self._endpoint.words,
            relay=self._shm.receivers.receiver if door is not None else None,
        )

    def _demands_shm(self) -> bool:
        return self._transport == "shm" and self._first is None

    def _note_transport(self, stream: Stream) -> None:
        """`stream` was opened: tells which way its batches take, when it is not the best one."""
        if stream.transport == "shm" or self._transport == "grpc":
            return
        self._no_shm = stream.opened.transport_reason or self._no_shm or "the service chose gRPC"
        if self._demands_shm():
            raise transport_unavailable(self._no_shm, self._endpoint.target)
        level = logging.INFO if self._transport == "auto" else logging.WARNING
        _log.log(level, "batches travel over gRPC: %s", self._no_shm)

    @property
    def transport(self) -> str:
        return self._stream.transport

    @property
    def transport_reason(self) -> str:
        """Why batches do not travel through shared memory, or who puts them there if it is not the service; else empty."""
        return self._shm.receivers.source(self._endpoint.target) if self.transport == "shm" else self._no_shm

    @property
    def held_slots(self) -> int:
        return self._stream.held_slots

    @property
    def ready_batches(self) -> int:
        return self._stream.ready_batches

    @property
    def opened(self):
        """The facts with which the first stream was opened."""
        return self._first

    @property
    def boot_id(self) -> str:
        return self._stream.opened.boot_id

    @property
    def layout(self) -> Layout:
        return self._stream.layout

    def wait_opened(self, silence: float, progress: Optional[ProgressFn]) -> None:
        """A loss is healed only after the service answered once: a wrong address fails at once."""
        try:
            self._wait_opened(silence, progress)
        except errors.BulkheadError as error:
            answered = self._stream.answered or error.reason in SERVICES_WORDS or self._shm.has_lost_receiver()
            if not answered or not is_loss(error) or self._deadline <= 0:
                if error._advice:
                    raise error._final() from None
                raise
            self._open_again(error.again(), progress)
        self._first = self._stream.opened

    def _wait_opened(self, silence: float, progress: Optional[ProgressFn]) -> None:
        try:
            self._stream.wait_opened(silence, progress)
        except UnusableArena as failure:
            if self._transport == "shm":
                raise
            self._shm.give_up(failure.message)
            self._stream.close()
            with self._changed:
                if self._closed:
                    raise errors.LoaderClosed("the loader is closed") from None
                self._stream = self._start(self._open, 0, silence)
            self._stream.wait_opened(silence, progress)
        self._note_transport(self._stream)

    def _open_again(self, cause: errors.BulkheadError, progress: Optional[ProgressFn]) -> None:
        """The service was lost while it prepared: waits for it, or raises."""
        with self._changed:
            self._lost_since = time.monotonic()
            self._losses = 1
        _log.warning("the service was lost while it prepared; the loader connects again by itself: %s", cause)
        try:
            stream = self._find_again(self._open, 0, cause, progress)
            if stream is None or not self._go_on_with(stream):
                raise errors.LoaderClosed("the loader is closed")
        finally:
            self._drop_candidate()

    def next(self, timeout: float) -> Optional[Batch]:
        """The next batch, or None after the last epoch."""
        until = time.monotonic() + timeout
        while True:
            stream = self._settled_stream(until, timeout)
            try:
                batch = stream.next(max(until - time.monotonic(), 0.0), timeout)
            except errors.BulkheadError as error:
                if not is_loss(error):
                    raise
                self._start_healing(stream, error.again())
                continue
            with self._changed:
                if self._stream is stream and self._healer is None:
                    self._lost_since, self._losses, self._pause = None, 0, _FIRST_PAUSE
                    self._shm.receivers.brought_batch()
            return batch

    def _settled_stream(self, until: float, timeout: float) -> Stream:
        with self._changed:
            settled = self._changed.wait_for(
                lambda: self._closed or self._healer is None, until - time.monotonic()
            )
            if self._closed:
                raise errors.LoaderClosed("the loader is closed")
            if not settled:
                ago = time.monotonic() - (self._lost_since or 0.0)
                raise errors.DeadlineExceeded(
                    f"no batch came within {timeout:g} s: the service was lost {ago:.3g} s ago and "
                    "is being reconnected",
                    metadata={"target": self._endpoint.target},
                )
            if self._failure is not None:
                raise self._failure.again()
            return self._stream

    def _start_healing(self, stream: Stream, cause: errors.BulkheadError) -> None:
        if self._deadline <= 0:
            raise cause._final()
        with self._changed:
            if self._closed or self._healer or self._failure or self._stream is not stream:
                return
            again = self._lost_since is not None  # no batch came since the last loss
            if not again:
                self._lost_since = time.monotonic()
            self._failure = self._given_up(cause)
            if self._failure is not None:
                return
            _log.warning("the service was lost; the loader connects again by itself and goes on where it was: %s", cause)
            request = proto.Open()
            request.CopyFrom(self._open)
            request.cursor.CopyFrom(stream.resume_cursor())
            # That the cursor may differ was for the first opening; from now on nothing may change.
            request.allow_changed_bytes = False
            self._healer = threading.Thread(
                target=self._heal,
                args=(request, stream.next_sequence, cause, again),
                name="bulkhead-reconnect",
                daemon=True,
            )
            try:
                self._healer.start()
            except RuntimeError as failure:
                self._healer = None  # the next call tries again
                raise errors.OutOfThreads(f"the loader cannot reconnect: {failure}") from None
            except BaseException:  # interrupted: it is unknown whether the thread was started
                self._healer = None
                raise

    # The healer thread.

    def _heal(self, request, first_sequence: int, cause: errors.BulkheadError, again: bool) -> None:
        with self._changed:
            if self._healer is not threading.current_thread():
                return  # disowned: its start was interrupted
        try:
            if again:
                self._back_off()
            stream = self._find_again(request, first_sequence, cause, None)
            if stream is not None:
                self._go_on_with(stream)
        except errors.BulkheadError as failure:
            self._failure = failure.again()
        except Exception as failure:
            self._failure = errors.BulkheadError(f"the loader could not reconnect: {failure!r}")
        finally:
            self._drop_candidate()
            with self._changed:
                self._healer = None
                self._changed.notify_all()

    # Of the healer thread, or, as long as nothing is opened, of the one that waits for that.

    def _find_again(
        self,
        request,
        first_sequence: int,
        cause: errors.BulkheadError,
        progress: Optional[ProgressFn],
    ) -> Optional[Stream]:
        """The opened stream, which is still the candidate; None when the loader was closed."""
        killed_for: Optional[errors.BulkheadError] = None
        while not self._closed:
            # Once: what there is afterwards is another service, and maybe every rank's.
            if cause.reason == "SERVICE_SILENT" and cause is not killed_for:
                killed_for = cause
                self._endpoint.kill()
                self._shm.kill_receiver()
            try:
                return self._reconnect(request, first_sequence, progress)
            except errors.DeadlineExceeded:
                pass  # slow: nothing new about the cause
            except UnusableArena as failure:
                if self._demands_shm():
                    raise
                self._shm.give_up(failure.message)
                continue
            except errors.BulkheadError as error:
                if not self._may_pass(error):
                    raise
                cause = error.again()
            with self._changed:
                given_up = self._given_up(cause)
                if given_up is not None:
                    raise given_up
            self._back_off()
        return None

    def _back_off(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed, self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _may_pass(self, error: errors.BulkheadError) -> bool:
        """Whether another attempt may succeed a little later."""
        if error.reason == "TRANSPORT_UNAVAILABLE" and self._demands_shm():
            return self._shm.door is None  # a service that just starts has none yet
        if error.reason in REFUSED:
            return self._first is not None
        # Files that are just being replaced may be right in a moment.
        return is_loss(error) or error.reason in ("OUT_OF_THREADS", "CREDENTIALS_INVALID")

    def _go_on_with(self, stream: Stream) -> bool:
        """Makes the candidate the stream; not when the loader was closed."""
        with self._changed:
            if self._closed:
                return False
            lost, self._stream = self._stream, stream
            self._candidate = None
            self.reconnects += 1
        lost.close()
        return True

    def _reconnect(
        self, request, first_sequence: int, progress: Optional[ProgressFn]
    ) -> Stream:
        self._drop_candidate()
        self._endpoint.revive(self._patience(), lambda: self._closed)
        stream = self._open_candidate(request, first_sequence, self._patience(), progress)
        # Opening may have used up the deadline.
        patience = max(self._patience(), _AGAIN_SECONDS)
        if stream.transport == "grpc" and self._shm.door is None and self._shm.open(patience, lambda: self._closed):
            # The service was just starting: its door came up after this end had looked for it.
            self._drop_candidate()
            stream = self._open_candidate(request, first_sequence, patience, progress)
        if self._first is not None:
            _check_same(self._first, stream.opened)
        self._note_transport(stream)
        return stream

    def _patience(self) -> float:
        """The rest of the deadline."""
        return max((self._lost_since or 0.0) + self._deadline - time.monotonic(), 0.0)

    def _open_candidate(
        self, request, first_sequence: int, patience: float, progress: Optional[ProgressFn]
    ) -> Stream:
        stream = self._start(request, first_sequence, patience)
        with self._changed:
            closed = self._closed
            if not closed:
                self._candidate = stream
        if closed:
            stream.close()
            raise errors.LoaderClosed("the loader is closed")
        try:
            stream.wait_opened(patience, progress)
        finally:
            with self._changed:  # a service that gets on is not lost
                self._lost_since = (self._lost_since or 0.0) + stream.opening.seconds
        return stream

    def _drop_candidate(self) -> None:
        with self._changed:
            candidate, self._candidate = self._candidate, None
        if candidate is not None:
            candidate.close()

    def _given_up(self, cause: errors.BulkheadError) -> Optional[errors.BulkheadError]:
        """Counts a loss; returns the error if no further attempt is allowed."""
        tried = time.monotonic() - (self._lost_since or 0.0)
        if cause.reason in REFUSED or cause.reason == _TOO_OFTEN:
            return cause.again() if tried >= self._deadline else None
        self._losses += 1
        if tried >= self._deadline:
            why = f"tried to reconnect for {tried:.3g} s"
        elif self._endpoint.embedded and self._losses > _MOST_EMBEDDED_LOSSES:
            why = (
                f"the embedded service was lost {self._losses} times in a row without giving a batch"
            )
        else:
            return None
        advice = cause._advice or "go on from the last cursor"
        return errors.ServiceUnavailable(f"{cause.message}; {why}; {advice}", metadata=cause.metadata)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            stream, candidate, healer = self._stream, self._candidate, self._healer
            self._changed.notify_all()
        try:
            if candidate is not None:
                candidate.close()
            stream.close()
        finally:
            self._shm.close()
            if healer is not None and healer is not threading.current_thread():
                # Not for ever: an interrupt in a `with` of the caller's may have left `_changed` locked.
                healer.join(_HEALER_END_SECONDS)
            open_streams.discard(self)


def close_all() -> None:
    """At interpreter exit: gRPC's threads must not outlive the interpreter."""
    for stream in list(open_streams):
        stream.close()
    live_streams.close_all()

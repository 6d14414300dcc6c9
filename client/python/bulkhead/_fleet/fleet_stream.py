"""One stream that several replicas of a service make."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Dict, List, Optional

import numpy as np

from .. import errors
from .._batch.batch import Batch, Layout, cursor_from_dict
from .._rpc import proto
from .._rpc.credentials import Credentials
from .._stream.events import Events, Progress
from .._stream.healing import ProgressFn, open_streams
from .._stream.transport import transport_unavailable
from .assembly import Assembly
from .keepers import Again, Keepers
from .late_log import LateLog
from .member import AWAY, FIRST_PAUSE, HERE, LEFT_OUT_PAUSE, Member, is_of_another_address, none_can, passes
from .received import ReceivedMemory
from .replica_stream import ReplicaStream
from .replicas import FleetEndpoint

_OTHERS_SECONDS = 2.0  # for the other replicas, when one is ready
_BYTES_WITHOUT_LIMIT = 1 << 62
# Of each replica's batches the program may keep so many in shared memory; of more it gets copies.
_SLOTS_TO_KEEP = 4


class FleetStream:
    """Asks each replica for a part of the batches, and hands them out in order; stands in the place of a HealingStream.

        reader of each replica's stream ──on_batch──▶ here, by number ──next, in order──▶ trainer
                                         Striping: who is asked for what
        Keepers: open the replicas' streams, again when they were lost; watch which replicas there are

    A replica that is lost, or that cannot serve, is left out while others can; its batches are made
    by those. It comes back by itself. All replicas that make batches have the same quarantine set,
    the union of theirs: when it grows, batches that were not handed out are made again, and the
    other replicas' streams are opened again.

    Locks: `lock` is the innermost one. A reader that calls holds its stream's lock, so with `lock`
    held no stream is called, but for `ask`. Thread-safe.
    """

    def __init__(self, endpoint: FleetEndpoint, credentials: Credentials, open_request: Any, deadline: float, transport: str):
        self.endpoint = endpoint
        self.credentials = credentials
        self._target = endpoint.target
        self._open = open_request
        self.deadline = deadline
        self._demands_shm = transport == "shm"  # of the first streams
        self.memory = ReceivedMemory(transport != "grpc")
        self.lock = threading.RLock()
        self._came = threading.Condition(self.lock)
        self._assembly = Assembly(open_request.credits)
        self._news: Optional[Progress] = None
        self._moved_at = time.monotonic()  # when something last got on with opening
        self._lost_since: Optional[float] = None  # since when no replica is here
        self._failure: Optional[errors.BulkheadError] = None
        self._closed = False
        self.log = LateLog()
        self.reconnects = 0
        self.events = Events()
        self._keepers = Keepers(self)
        open_streams.add(self)
        try:
            self._keepers.start()
        except BaseException:
            self.close()
            raise

    # Facts.

    @property
    def opened(self) -> Any:
        """The facts of the stream."""
        return self._assembly.opened

    @property
    def layout(self) -> Layout:
        assert self._assembly.layout is not None
        return self._assembly.layout

    @property
    def transport(self) -> str:
        """How batches of all replicas that are here come."""
        with self.lock:
            streams = self._keepers.streams_here()
            return "shm" if streams and all(stream.transport == "shm" for stream in streams) else "grpc"

    @property
    def transport_reason(self) -> str:
        """Why batches come over gRPC, or who puts them into shared memory."""
        return self.memory.receivers.source(self._target) if self.transport == "shm" else self.memory.reason

    @property
    def held_slots(self) -> int:
        """Slots of shared memory that the program's arrays keep."""
        with self.lock:
            streams = self._keepers.streams_here()
        return max(sum(stream.held_slots for stream in streams) - self._assembly.ready, 0)

    @property
    def ready_batches(self) -> int:
        return self._assembly.ready

    @property
    def boot_id(self) -> str:
        """Of the first replica that is here."""
        with self.lock:
            return next((member.boot_id for member in self._keepers.here()), "")

    @property
    def target_here(self) -> str:
        """The address of the first replica that is here; while there is none, of the first."""
        with self.lock:
            return next((member.target for member in [*self._keepers.here(), *self._keepers.all()]), self._target)

    def shares(self) -> Dict[str, float]:
        """By target, the part of the batches that each replica makes now."""
        with self.lock:
            shares = self._assembly.striping.shares() if self._assembly.begun else {}
            return {member.target: shares[member] for member in self._keepers.here() if member in shares}

    # Opening.

    def wait_opened(self, silence: float, progress: Optional[ProgressFn]) -> None:
        """Until replicas are ready; those that are late join later. Raises when none can serve, or when they differ."""
        settled = False
        while not settled:
            with self.lock:
                news, self._news = self._news, None
                settled = news is None and self._is_settled()
                if settled:
                    self._begin()
                elif news is None and time.monotonic() - self._moved_at >= silence:
                    raise errors.DeadlineExceeded(
                        f"the services at {self._target} made no progress for {silence:g} s while opening the stream",
                        metadata={"target": self._target},
                    )
                elif news is None:
                    self._came.wait(0.1)
            self.log.tell()
            if news is not None and progress is not None:
                progress(news)

    def _is_settled(self) -> bool:
        """Whether no replica needs to be waited for."""
        if self._failure is not None:
            raise self._failure.again()
        if self._closed:
            raise errors.LoaderClosed("the loader is closed")
        now = time.monotonic()
        if self._keepers.here() and now - self._moved_at >= _OTHERS_SECONDS:
            return True
        # A service that has answered is lost, not absent: it is given time, unless others are here.
        patient = not self._keepers.here() and now - self._moved_at < self.deadline
        return all(member.state == HERE or member.has_failed(patient) for member in self._keepers.all())

    def _begin(self) -> None:
        here = self._keepers.here()
        missing = [member for member in self._keepers.all() if member.error is not None]
        if not here:
            raise none_can(missing)
        self._assembly.begin(here, len(self._keepers.all()))
        if self.memory.wanted and self.memory.reason:
            self.log.say(logging.INFO, f"batches travel over gRPC: {self.memory.reason}")
        for member in missing:
            self.log.say(logging.WARNING, f"the replica at {member.target} is left out for now: {member.error}")

    # Batches.

    def next(self, timeout: float) -> Optional[Batch]:
        """The next batch, or None after the last epoch."""
        until = time.monotonic() + timeout
        while True:
            with self.lock:
                if self._closed:
                    raise errors.LoaderClosed("the loader is closed")
                if self._assembly.striping.has_head:
                    return self._assembly.hand_out()
                if self._assembly.striping.finished:
                    return None
                self._judge()
                if self._failure is not None:
                    raise self._failure.again()
                if time.monotonic() >= until:
                    text = f"no batch came within {timeout:g} s{self._assembly.why_late(self._lost_since)}"
                    raise errors.DeadlineExceeded(text, metadata={"target": self._target})
                watched = self._keepers.streams_here()
            self._wait(until, watched)
            self.log.tell()

    def _wait(self, until: float, watched: List[ReplicaStream]) -> None:
        """Waits a moment for the head; notices replicas that are silent or late."""
        started = time.monotonic()
        moments = [stream.begin_wait(until - started) for stream in watched]
        with self.lock:
            late = self._assembly.striping.late_at()
            ends = min([until, started + 1.0, *([late] if late is not None else [])])
            if not (self._assembly.striping.has_head or self._closed or self._failure):
                self._came.wait(max(ends - time.monotonic(), 0.0))
            self._assembly.look()
        waited = time.monotonic() - started
        for stream, moment in zip(watched, moments):
            stream.waited(waited, moment)

    # What the replicas' readers call.

    def on_batch(self, stream: ReplicaStream, header: Any, arrays: Dict[str, np.ndarray]) -> None:
        """A batch came."""
        with self.lock:
            member = self._maker(stream)
            if member is None:
                return
            self._lost_since = None
            self.memory.receivers.brought_batch()
            try:
                if self._assembly.arrived(member, header, arrays):
                    self._came.notify_all()
            except errors.CodeChanged as failure:
                self._fail(failure)

    def on_quarantined(self, stream: ReplicaStream) -> None:
        """The replica leaves out a record from its next batch on."""
        with self.lock:
            member = self._maker(stream)
            if member is not None:
                self._adopt_quarantine(member, stream)

    def on_end(self, stream: ReplicaStream, error: errors.BulkheadError) -> None:
        """The stream has ended. Must not call the stream."""
        with self.lock:
            member = self._maker(stream)
            if member is not None and not self._closed:
                self._lose(member, error)

    def _maker(self, stream: ReplicaStream) -> Optional[Member]:
        """The member that makes batches by this stream."""
        return next((member for member in self._keepers.here() if member.stream is stream), None)

    # With `lock` held.

    def _fail(self, error: errors.BulkheadError) -> None:
        if self._failure is None:
            self._failure = error.again()
        self._came.notify_all()

    def _judge(self) -> None:
        """Gives up when no replica is left for too long."""
        if self._failure is not None or not self._assembly.begun or self._keepers.here():
            return
        if self.endpoint.why_ended:
            return self._fail(errors.ServiceUnavailable(self.endpoint.why_ended, metadata={"target": self._target}))
        members = self._keepers.all()
        if self._lost_since is None:
            self._lost_since = time.monotonic()
        tried = time.monotonic() - self._lost_since
        if members and all(member.cannot_serve for member in members):
            self._fail(none_can(members))
        elif tried >= self.deadline:
            cause = next((member.error for member in members if member.error is not None), None)
            said = cause.message if cause is not None else "there is no replica"
            text = f"{said}; tried to reconnect for {tried:.3g} s"
            self._fail(errors.ServiceUnavailable(text, metadata={"target": self._target}))

    def _lose(self, member: Member, error: errors.BulkheadError) -> None:
        """A replica that was here makes no more batches."""
        self.dismiss(member, error.again())
        if error.reason == "SUPERSEDED":
            return self._fail(error)
        if passes(error):
            self.reconnects += 1
            what = "others make its batches" if self._keepers.here() else "is being reconnected"
            self.log.say(logging.WARNING, f"the replica at {member.target} was lost, and {what}: {error}")
        else:
            self.log.say(logging.WARNING, f"the replica at {member.target} is left out: {error}")
            member.pause = LEFT_OUT_PAUSE
        self._judge()

    def _adopt_quarantine(self, member: Member, stream: ReplicaStream) -> None:
        """The member leaves out records that the others do not: from the first batch on that was not handed out, all do."""
        try:
            records = self._assembly.quarantine(stream.records)
        except errors.ResourceExhausted as failure:
            return self._fail(failure)
        if records is None:
            return
        for other in self._keepers.here():
            if other.stream is not None and other.stream.records != records:
                self.dismiss(other, None)
        self._assembly.redo()

    # What the keepers call; with `lock` held, but for the last three.

    def resize(self, count: int) -> None:
        """There are so many replicas now."""
        self._assembly.resize(count)

    def request_for(self, member: Member) -> Any:
        """What to open the member's stream with."""
        request = proto.Open()
        request.CopyFrom(self._open)
        request.assigned = True
        request.transport = proto.TRANSPORT_GRPC
        # The window is what bounds them.
        request.credits.batches = self._open.credits.batches + 2 * len(self._keepers.all()) + _SLOTS_TO_KEEP
        request.credits.bytes = _BYTES_WITHOUT_LIMIT
        member.base = self._assembly.striping.head
        if self._assembly.cursor is not None:
            request.cursor.CopyFrom(cursor_from_dict(self._assembly.cursor))
        # That the cursor may differ was for the first opening.
        request.allow_changed_bytes = self._open.allow_changed_bytes and not self._assembly.begun
        return request

    def admit(self, member: Member, stream: ReplicaStream) -> None:
        """The member's stream is open. Again, or an error that keeps it out."""
        opened = stream.opened
        if self._demands_shm and not self._assembly.begun and stream.transport != "shm":
            reason = opened.transport_reason or self.memory.reason
            raise transport_unavailable(reason, member.target)
        others = (each for each in self._keepers.all() if each is not member)
        twin = next((each for each in others if each.is_service(opened.boot_id)), None)
        if twin is not None:
            raise errors.InvalidArgument(f"it is the service at {twin.target} by another address")
        try:
            self._assembly.compare(member, opened, stream.layout)
        except errors.CursorMismatch as failure:
            if not self._assembly.begun:
                self._fail(failure)
            raise
        if stream.end is not None:  # before it could be noted that it makes batches
            raise stream.end
        if self._assembly.lacks(stream.records):
            raise Again  # others have added to it meanwhile
        member.state, member.boot_id, member.error, member.pause = HERE, opened.boot_id, None, FIRST_PAUSE
        self._moved_at = time.monotonic()
        self._adopt_quarantine(member, stream)
        self._assembly.join([member])
        if self._assembly.begun:
            self.log.say(logging.INFO, f"the replica at {member.target} makes batches")
        self._came.notify_all()

    def dismiss(self, member: Member, error: Optional[errors.BulkheadError]) -> None:
        """The member is no longer one of the replicas."""
        member.state, member.error = AWAY, error
        member.pause = FIRST_PAUSE if error is not None else 0.0
        self._assembly.leave(member)
        self._came.notify_all()
        self._keepers.wake()

    def note_away(self, member: Member, error: Optional[errors.BulkheadError]) -> None:
        """An attempt to open the member has failed; without an error it is repeated at once."""
        with self.lock:
            told = member.error.message if member.error is not None else ""
            others = any(each.state != AWAY for each in self._keepers.all() if each is not member)
            if error is not None and others and is_of_another_address(error):
                error = errors.InvalidArgument("it is the service of another replica by another address")
            member.state, member.error = AWAY, error
            member.wait_longer()
            told_of = self._assembly.begun and not self._closed and self._failure is None
            if member.cannot_serve and told_of and str(error) != told:
                self.log.say(logging.WARNING, f"the replica at {member.target} is left out: {error}")
            elif error is not None and told_of and not told and not member.answered:
                self.log.say(logging.WARNING, f"the replica at {member.target} is left out for now: {error}")
            if error is not None and error.reason == "SUPERSEDED":
                self._fail(error)
            self._judge()
            self._came.notify_all()

    def note_progress(self, progress: Progress) -> None:
        """A replica gets on with preparing."""
        with self.lock:
            self._news = progress
            self._moved_at = time.monotonic()
            if self._lost_since is not None:
                self._lost_since = self._moved_at
            self._came.notify_all()

    def close(self) -> None:
        with self.lock:
            self._closed = True
            self._came.notify_all()
        self._keepers.close()
        self.memory.receivers.close()
        open_streams.discard(self)

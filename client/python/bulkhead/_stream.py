"""One call of Loader.Stream and the thread that reads it."""

from __future__ import annotations

import collections
import logging
import math
import os
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Optional

import numpy as np

from . import _grpc, _live_streams, _proto, _silence, errors
from ._announcements import Announcements
from ._arena import Arena, ArenaUnusable
from ._assembler import Assembler
from ._batch import Batch, Layout, arrays_in, cursor_from_dict, cursor_to_dict, make_layout
from ._door import Door, DoorClosed, DoorError
from ._events import Events, Hang, Progress, Substitution
from ._exhaustion import ExhaustionWatch
from ._holdings import describe
from ._order import Order
from ._silence import SilenceWatch
from ._wire import Part, parse

if TYPE_CHECKING:
    import grpc

_log = logging.getLogger("bulkhead")

_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", 16 << 20),
    ("grpc.max_send_message_length", 16 << 20),
    # An error's text travels percent-encoded, in which a letter beyond ASCII takes 6 to 12 bytes.
    ("grpc.max_metadata_size", 64 << 10),
    # Another channel's back-off must not delay this one.
    ("grpc.use_local_subchannel_pool", 1),
    # Batches do not go through a proxy that was meant for web pages.
    ("grpc.enable_http_proxy", 0),
]

_GRANT_SECONDS = 10.0  # the grant is sent before the message that leads to it


class UnusableArena(errors.TransportUnavailable):
    """The service opened the stream over shared memory, and this end cannot use it."""


class Stream:
    """Receives batches ahead of `next`, bounded by the credits.

    reader thread: gRPC → Assembler → queue; callers: wait_opened, next. Slots of shared memory come
    through the door, which `next` reads itself: no other thread is woken for them. Over gRPC a
    batch's credit goes back when `next` hands it out: from then on its memory is the caller's. Over
    shared memory its slot goes back when the last array that views it goes away. The first error
    stays. Thread-safe.
    """

    def __init__(
        self,
        target: str,
        open_request,
        door: Optional[Door],
        post_mortem: Optional[Callable[[], str]],
        first_sequence: int,
        events: Events,
    ):
        """`first_sequence` is what the caller calls the first batch; on the wire it is 0.

        `events` are added to; other streams of the loader have added theirs. `door` is what the request's token came from. `post_mortem` tells how a service of our own
        ended; such a one was ready before, so its silence counts from the beginning.
        """
        self._target = target
        self._credits = open_request.credits
        self._world_size = open_request.world_size
        self._door = door
        self._post_mortem = post_mortem
        self._owner = os.getpid()
        self._changed = threading.Condition()
        self._ready: Deque[Batch] = collections.deque()
        self._opened: Any = None
        self._layout: Optional[Layout] = None
        self._order: Optional[Order] = None
        self._assembler: Optional[Assembler] = None
        self._arena: Optional[Arena] = None
        self._announcements: Optional[Announcements] = None  # unless slots come on the stream
        self._progress: Optional[Progress] = None
        self._progress_seen: Any = None
        self._started = self._got_on = time.monotonic()
        self._error: Optional[errors.BulkheadError] = None
        self._ended = False
        self._closed = False
        # Over gRPC: the sizes of batches that began to arrive and are not handed out.
        self._held: Deque[int] = collections.deque()
        self._first_sequence = first_sequence
        self._resume: Any = None
        self.next_sequence = first_sequence
        self._events = events
        self._activity = ""  # what the workers were doing at the last heartbeat, if no batch has come since
        self._idle = False  # by the last heartbeat: the stream's workers serve others
        self._silence = SilenceWatch(from_the_beginning=post_mortem is not None)
        self._exhaustion = ExhaustionWatch(target)

        self._requests: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._requests.put(_proto.StreamRequest(open=open_request))
        self._channel = _grpc.load().insecure_channel(target, options=_CHANNEL_OPTIONS)
        start = self._channel.stream_stream(
            "/bulkhead.v1.Loader/Stream",
            request_serializer=_proto.StreamRequest.SerializeToString,
            response_deserializer=None,
        )
        # `None` in the queue ends gRPC's sending thread.
        self._call = start(iter(self._requests.get, None))
        self._reader = threading.Thread(target=self._read, name="bulkhead-reader", daemon=True)
        try:
            self._reader.start()
        except RuntimeError as failure:
            self._call.cancel()
            self._requests.put(None)
            self._channel.close()
            raise errors.OutOfThreads(f"the loader cannot read its stream: {failure}") from None
        _live_streams.add(self)

    # The reader thread.

    def _read(self) -> None:
        try:
            error = self._receive_all()
        except BaseException as failure:  # whatever it is: a silent end would be a hang
            error = errors.BulkheadError(f"the loader's reader failed: {failure!r}")
        try:
            if self._announcements is not None:
                self._announcements.end()
        except errors.BulkheadError as failure:
            error = error or failure
        except BaseException as failure:
            error = error or errors.BulkheadError(f"the loader's reader failed: {failure!r}")
        with self._changed:
            if not self._ended:
                self._error = error.again() if error is not None else None
            self._ended = True
            self._notify()
            if self._arena is not None:
                self._arena.retire()
        self._call.cancel()
        self._requests.put(None)

    def _receive_all(self) -> Optional[errors.BulkheadError]:
        grpc = _grpc.load()
        try:
            for message in self._call:
                self._silence.heard()
                self._on_message(message)
        except grpc.RpcError as failure:
            try:
                return self._explain(failure)
            finally:
                # It is the call itself, which would keep this frame, the stream and its arena.
                failure.__traceback__ = None
        except errors.BulkheadError as failure:
            return failure
        except MemoryError:
            return errors.BulkheadError(
                "no memory for a batch; lower batch.size or the credits",
                "RESOURCE_EXHAUSTED",
                code="RESOURCE_EXHAUSTED",
            )
        if self._opened is None:
            return errors.ProtocolError(
                "the service ended the stream before it was opened; client and service may be of "
                "different versions"
            )
        if self._assembler is not None and self._assembler.in_batch:
            return errors.ProtocolError("the service ended the stream in the middle of a batch")
        return None

    def _explain(self, failure: grpc.RpcError) -> errors.BulkheadError:
        error = errors.from_rpc(failure, self._target)
        if self._closed or error.reason != "SERVICE_UNAVAILABLE":
            return error
        died = self._post_mortem() if self._post_mortem is not None else ""
        if not died:
            return error
        return type(error)(f"{error.message}; {died}", error.reason, error.metadata, error.code)

    def _on_message(self, message: bytes) -> None:
        item = parse(message)
        if isinstance(item, Part):
            self._on_part(item)
            return
        kind = item.WhichOneof("response")
        if kind == "progress":
            self._on_progress(item.progress)
        elif kind == "opened":
            self._on_opened(item.opened)
        elif kind in ("slot", "event"):
            if self._announcements is not None and self._announcements.open:
                self._announcements.read(self._fail)  # what the service sent there before
            if kind == "slot":
                self._on_slot(item.slot)
            else:
                self._on_event(item.event)
        elif kind == "heartbeat":
            silent = item.heartbeat.supervisor_silent
            self._silence.told(silent.seconds + silent.nanos * 1e-9)
            self._activity = item.heartbeat.activity
            if item.heartbeat.idle and not self._idle:
                _log.warning("the service at %s lends this stream's workers to others until a batch is taken", self._target)
            self._idle = item.heartbeat.idle

    def _on_event(self, event) -> None:
        if event.kind == _proto.KIND_SUBSTITUTED:
            self._on_substituted(event)
        elif event.kind == _proto.KIND_QUARANTINED:
            self._on_quarantined(event)
        elif event.kind == _proto.KIND_HUNG:
            hang = Hang(event.epoch, event.position, event.message)
            self._events.hangs.append(hang)
            _log.warning("epoch %d, position %d: a worker hung and was ended: %s", *hang)

    def _on_substituted(self, event) -> None:
        substitution = Substitution(
            event.epoch, event.position, event.substitute_position, event.message
        )
        if substitution in self._events.substitutions:
            return  # of a batch that is sent again after a lost connection
        self._events.substitutions.append(substitution)
        _log.warning("epoch %d, position %d: substituted by position %d: %s", *substitution)

    def _on_quarantined(self, event) -> None:
        if self._order is None:
            raise errors.ProtocolError(
                "the service quarantined a record before it opened the stream"
            )
        self._order.quarantine(event.record)
        with self._changed:
            # Whatever comes next comes without the record, also from another service.
            records = self._order.cursor["quarantined"]
            self._resume = {**self._resume, "quarantined": records}
        if event.record not in self._events.quarantined:
            self._events.quarantined[event.record] = event.message
            _log.warning("quarantined from now on: %s", event.message or event.record)

    def _on_part(self, part: Part) -> None:
        if self._assembler is None:
            raise errors.ProtocolError(
                "the service sent a batch before it opened the stream"
                if self._opened is None
                else "the service sent a batch's bytes although it lies in shared memory"
            )
        arrived = self._assembler.add(part)
        if arrived is not None:
            self._deliver(*arrived)

    def _check_header(self, header) -> None:
        """Of a batch that begins over gRPC: it must be the right one, and within the credit."""
        assert self._order is not None
        with self._changed:
            if len(self._held) >= self._credits.batches:
                raise errors.ProtocolError(
                    f"the service sent more than the {self._credits.batches} batches of credit"
                )
            self._order.check(header)
            # One batch is always allowed.
            if self._held and sum(self._held) + header.payload_bytes > self._credits.bytes:
                raise errors.ProtocolError(
                    f"the service sent more than the {self._credits.bytes} bytes of credit"
                )
            self._held.append(header.payload_bytes)

    def _on_slot(self, message) -> None:
        arena, order, layout = self._arena, self._order, self._layout
        if arena is None or order is None or layout is None:
            raise errors.ProtocolError("the service sent a slot of shared memory that was not agreed on")
        if message.arena_id != arena.arena_id:
            raise errors.ProtocolError("the service sent a slot of another arena")
        if len(arena.held) >= self._credits.batches:
            raise errors.ProtocolError(
                f"the service sent more than the {self._credits.batches} batches of credit"
            )
        lease = arena.take(message.slot)
        order.check(message.header)
        self._deliver(message.header, arrays_in(lease, layout, message.header.sample_count))

    def _deliver(self, header, arrays: Dict[str, np.ndarray]) -> None:
        assert self._order is not None
        cursor = self._order.note(header)
        sequence = self._first_sequence + header.sequence
        batch = Batch(arrays, header, sequence, cursor, self.layout.ragged)
        with self._changed:
            if self._ended or self._closed:  # given up: the next stream brings it
                return
            # What heartbeats said before is out of date.
            self._silence.told(0.0)
            self._activity = ""
            self._resume = cursor
            self.next_sequence = self._first_sequence + self._order.low_water
            self._ready.append(batch)
            self._notify()

    def _on_progress(self, progress) -> None:
        eta = progress.eta.seconds + progress.eta.nanos * 1e-9 if progress.HasField("eta") else None
        facts = (progress.files_done, progress.files_total, progress.records, progress.activity)
        with self._changed:
            self._progress = Progress(*facts[:3], eta, progress.activity)
            if facts != self._progress_seen:
                self._progress_seen, self._got_on = facts, time.monotonic()
            self._changed.notify_all()

    def _on_opened(self, opened) -> None:
        if self._opened is not None:
            raise errors.ProtocolError("the service opened the stream twice")
        layout = make_layout(opened.schema)
        self._resume = cursor_to_dict(opened.cursor)
        self._order = Order(opened, layout, self._world_size, self._resume)
        if opened.transport == _proto.TRANSPORT_SHM:
            self._arena = self._receive_arena(opened.arena_id, layout)
        else:
            self._assembler = Assembler(layout, self._credits.batches, self._check_header)
        if opened.announced_at_door:
            if self._arena is None or self._door is None:
                raise errors.ProtocolError("the service announces slots of shared memory without any")
            self._announcements = Announcements(self._door, self._arena.arena_id, self._target)
        with self._changed:
            self._layout = layout
            self._opened = opened
            self._got_on = time.monotonic()
            self._changed.notify_all()
        if self._announcements is not None:
            # Not before it is open: what is wrong with a batch is no error of that.
            self._announcements.begin(self._on_packet)

    def _on_packet(self, kind: str, message) -> None:
        """Of the arena door, on whatever thread reads it."""
        self._silence.heard()
        try:
            if kind == "slot":
                self._on_slot(message)
            else:
                self._on_event(message.event)
        except errors.BulkheadError as failure:
            self._fail(failure.again())

    def _fail(self, error: errors.BulkheadError) -> None:
        with self._changed:
            if self._ended:
                return
            self._error = error
            self._ended = True
            self._notify()
        self._call.cancel()
        self._requests.put(None)

    def _notify(self) -> None:
        """Wakes those who wait for a batch, or the end, with `_changed` held."""
        self._changed.notify_all()
        if self._announcements is not None:
            self._announcements.wake()

    def _receive_arena(self, arena_id: int, layout: Layout) -> Arena:
        if self._door is None:
            raise errors.ProtocolError("the service chose shared memory for a client without a door")
        try:
            grant, descriptor = self._door.receive_grant(
                arena_id, _GRANT_SECONDS, lambda: self._closed
            )
            return Arena(grant, descriptor, layout.batch_bytes, self._door)
        except DoorClosed as failure:
            raise errors.ServiceUnavailable(
                f"the service at {self._target} was lost while it opened the stream: {failure}",
                metadata={"target": self._target},
            ) from None
        except (ArenaUnusable, DoorError) as failure:
            raise UnusableArena(str(failure), metadata={"target": self._target}) from None

    # Callers.

    @property
    def answered(self) -> bool:
        """Whether there is, or was, a service at the address, which spoke here or at its door."""
        return self._silence.listening or self._door is not None

    @property
    def preparing_seconds(self) -> float:
        """How long the service took, or has got on with, opening the stream; 0 when it did not."""
        return self._got_on - self._started

    @property
    def opened(self):
        return self._opened

    @property
    def layout(self) -> Layout:
        assert self._layout is not None
        return self._layout

    @property
    def transport(self) -> str:
        """"shm" or "grpc", once it is opened."""
        return "shm" if self._arena is not None else "grpc"

    @property
    def held_slots(self) -> int:
        """Slots of shared memory that the program's arrays keep."""
        with self._changed:
            return len(self._arena.held) - len(self._ready) if self._arena is not None else 0

    @property
    def ready_batches(self) -> int:
        """Batches that arrived whole and were not handed out."""
        if self._announcements is not None and self._owner == os.getpid():
            self._announcements.read_if_free(self._fail)
        return len(self._ready)

    def resume_cursor(self):
        """State after the last batch that arrived whole."""
        return cursor_from_dict(self._resume)

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise errors.LoaderClosed("the loader is closed")

    def _wait_a_while(self, done: Callable[[], Any], until: float) -> bool:
        """Waits at most a moment, with `_changed` held; whether `done`.

        Also notices that the service fell silent; that ends the stream.
        """
        started = time.monotonic()
        moment = self._silence.begin_wait(until - started)
        if self._changed.wait_for(done, moment):
            return True
        self._lose_if_silent(time.monotonic() - started, moment)
        return bool(done())

    def _lose_if_silent(self, waited: float, moment: float) -> None:
        """A wait of `moment` seconds took `waited` seconds in vain."""
        if self._silence.waited(waited, moment):
            quiet = self._silence.seconds
            text = (
                f"the service at {self._target} has said nothing for {quiet:.3g} s, though a "
                "service that lives says something every second"
            )
        elif self._silence.supervisor_seconds >= _silence.SILENCE_SECONDS:
            quiet = self._silence.supervisor_seconds
            text = (
                f"the service at {self._target} says that its supervisor has answered nothing for "
                f"{quiet:.3g} s"
            )
        else:
            return
        self._fail(
            errors.ServiceUnavailable(
                text, "SERVICE_SILENT", {"target": self._target, "silent_seconds": f"{quiet:.3g}"}
            )
        )

    def wait_opened(self, silence: float, progress: Optional[Callable[[Progress], None]]) -> None:
        """Until the service opened the stream; fails when nothing moved for `silence` seconds."""
        seen: Any = None
        until = time.monotonic() + silence
        while True:
            with self._changed:
                news = self._wait_a_while(
                    lambda: self._opened is not None
                    or self._ended
                    or self._closed
                    or self._progress is not None,
                    until,
                )
                self._raise_if_closed()
                # What came last is told first, even when the stream has opened since.
                told, self._progress = self._progress, None
                if told is None and self._opened is not None:
                    return
                if told is None and self._error is not None:
                    raise self._error.again()
                if not news and time.monotonic() >= until:
                    raise errors.DeadlineExceeded(
                        f"the service at {self._target} made no progress for {silence:g} s while "
                        "opening the stream",
                        metadata={"target": self._target},
                    )
                if self._progress_seen != seen:
                    seen = self._progress_seen
                    until = time.monotonic() + silence
            if told is not None and progress is not None:
                progress(told)

    def next(self, timeout: float, asked: float) -> Optional[Batch]:
        """The next batch, or None after the last epoch.

        `timeout` is what is left of the `asked` seconds.
        """
        started = time.monotonic()
        until = started + timeout
        self._exhaustion.begin(started)
        while True:
            if self._door is not None:
                self._door.flush()
            came = self._wait_for_batch(min(until, time.monotonic() + self._free_slots()))
            with self._changed:
                self._raise_if_closed()
                if self._ready:
                    return self._hand_out()
                if self._ended:
                    if self._error is not None:
                        raise self._error.again()
                    return None
            if not came:
                self._check_exhausted(until)
                if time.monotonic() >= until:
                    raise self._deadline_exceeded(asked)

    def _deadline_exceeded(self, asked: float) -> errors.DeadlineExceeded:
        text = f"no batch came from the service at {self._target} within {asked:g} s"
        if self._activity:
            text += f"; the workers are at: {self._activity}"
        return errors.DeadlineExceeded(text, metadata={"target": self._target})

    def _wait_for_batch(self, until: float) -> bool:
        """As `_wait_a_while`; reads the door meanwhile."""
        announcements = self._announcements
        if announcements is None or not announcements.open:
            with self._changed:
                return self._wait_a_while(self._has_news, until)
        started = time.monotonic()
        with self._changed:
            moment = self._silence.begin_wait(until - started)
        announcements.wait(moment, self._has_news, self._fail)
        if not self._has_news():
            with self._changed:
                self._lose_if_silent(time.monotonic() - started, moment)
        return self._has_news()

    def _has_news(self) -> bool:
        return bool(self._ready or self._ended or self._closed)

    def _hand_out(self) -> Batch:
        batch = self._ready.popleft()
        if self._arena is None:
            self._held.popleft()
            if not self._ended:
                through = batch.sequence - self._first_sequence
                self._requests.put(_proto.StreamRequest(release={"through_sequence": through}))
        return batch

    def _free_slots(self) -> float:
        """If the program holds all batches that it may: frees unused arrays. Returns when to look again, in seconds."""
        if self._arena is None or self._has_news():
            return math.inf
        return self._exhaustion.pause(len(self._arena.held), self._most_held(self._arena))

    def _check_exhausted(self, until: float) -> None:
        """Warns, then raises, when `next` waits because the program keeps all it may have."""
        arena = self._arena
        if arena is not None:
            limit = self._most_held(arena)
            self._exhaustion.check(len(arena.held), limit, until, lambda: describe(arena))

    def _most_held(self, arena: Arena) -> int:
        """With so many slots held, the service can send no more."""
        return min(arena.slot_count - 1, self._credits.batches)

    def close(self) -> None:
        """Ends the call. Safe to call twice and from a forked child, where it does nothing."""
        if self._owner != os.getpid():
            return
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._notify()
        self._call.cancel()
        self._requests.put(None)
        if threading.current_thread() is not self._reader:
            self._reader.join(5.0)
        self._channel.close()
        _live_streams.discard(self)

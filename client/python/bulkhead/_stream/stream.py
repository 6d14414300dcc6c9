"""One call of Loader.Stream and the thread that reads it."""

from __future__ import annotations

import collections
import logging
import math
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Optional, Tuple

import numpy as np

from .. import errors
from .._arena.announcements import Announcements
from .._arena.door import Door
from .._batch.batch import Batch, Layout, cursor_from_dict, cursor_to_dict, make_layout
from .._batch.order import Order
from .._rpc import grpc_library, live_streams, proto
from .._rpc.credentials import Credentials
from .._rpc.stream_call import Relay, StreamCall
from .._rpc.wire import Part, parse
from .events import Events, Progress
from .opening import Opening
from .silence import SilenceWatch
from .transport import OverArena, OverGrpc, Transport, check_greeting, receive_arena

if TYPE_CHECKING:
    import grpc

_log = logging.getLogger("bulkhead")

# For what workers said of the last samples, when a loader is closed behind the last batch.
LAST_WORDS_SECONDS = 2.0
# Until the log says why the first batch has not come.
_LONG_WAIT = 10


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
        credentials: Credentials,
        open_request,
        door: Optional[Door],
        post_mortem: Optional[Callable[[], str]],
        first_sequence: int,
        events: Events,
        words: Callable[[str], str],
        order: Callable[..., Any] = Order,
        authority: str = "",
        relay: Optional[Relay] = None,
    ):
        """`first_sequence` is what the caller calls the first batch; on the wire it is 0.

        `events` are added to; other streams of the loader have added theirs. `door` is what the
        request's token came from. `post_mortem` tells how a service of our own ended; such a one was ready before, so its
        silence counts from the beginning. `words` makes of its messages those that the program's author knows.
        `order` makes what checks which batch may come. `authority` is the name in the service's certificate, if that is not the target's.
        `relay` makes the call, and the door is its own.
        """
        self._target = target
        self._credits = open_request.credits
        self._world_size = open_request.world_size
        self._door = door
        self._post_mortem = post_mortem
        self._relay = relay
        self._words = words
        self._owner = os.getpid()
        self._changed = threading.Condition()
        self._ready: Deque[Batch] = collections.deque()
        self._before: Deque[Tuple[Any, int]] = collections.deque()  # for each of them, how a stream goes on with it
        self.opened: Any = None
        self._layout: Optional[Layout] = None
        self._make_order = order
        self._order: Any = None
        self._transport: Optional[Transport] = None
        self._announcements: Optional[Announcements] = None  # unless slots come on the stream
        self.opening = Opening()
        self._error: Optional[errors.BulkheadError] = None
        self._ended = False
        self._last_came = False  # the spec's last batch; only lines for the log may follow
        self._closed = False
        self._first_sequence = first_sequence
        self._resume: Any = None
        self.next_sequence = first_sequence
        self._events = events
        self._activity = ""  # what the workers were doing at the last heartbeat, if no batch has come since
        self._tells_wait_at = time.monotonic() + _LONG_WAIT  # for the first batch; inf: it was told
        self._idle = False  # by the last heartbeat: the stream's workers serve others
        self._silence = SilenceWatch(from_the_beginning=post_mortem is not None)
        self._call = StreamCall(target, credentials, open_request, authority, relay)
        self._reader = threading.Thread(target=self._read, name="bulkhead-reader", daemon=True)
        try:
            self._reader.start()
        except RuntimeError as failure:
            self._call.cancel()
            self._call.close()
            raise errors.OutOfThreads(f"the loader cannot read its stream: {failure}") from None
        live_streams.add(self)

    # The reader thread.

    def _read(self) -> None:
        try:
            error = self._receive_all()
        except BaseException as failure:  # whatever it is: a silent end would be a hang
            error = errors.BulkheadError(f"the loader's reader failed: {failure!r}")
        try:
            if error is not None and error.reason == "STREAM_IDLE":
                self._forget_unread(error)
            if self._announcements is not None:
                self._announcements.end()
            if error is None and not self._order.is_complete:
                raise errors.ServiceUnavailable(
                    f"the service at {self._target} ended the stream before its last batch", metadata={"target": self._target}
                )
        except errors.BulkheadError as failure:
            error = error or failure
        except BaseException as failure:
            error = error or errors.BulkheadError(f"the loader's reader failed: {failure!r}")
        with self._changed:
            if not self._ended:
                self._error = error.again() if error is not None else None
            self._ended = True
            self._notify()
            if self._transport is not None:
                self._transport.end()
        self._call.cancel()

    def _forget_unread(self, error: errors.BulkheadError) -> None:
        """The service needs the memory: gives back slots that nobody has read. The next stream brings them again."""
        with self._changed:
            if self._ended or self._transport is None or self._transport.name != "shm":
                return
            self._error, self._ended = error.again(), True  # nothing is delivered any more
            if self._ready:
                assert self._order is not None
                resume, self.next_sequence = self._before[0]
                self._resume = {**resume, "quarantined": self._order.cursor["quarantined"]}
            self._ready.clear()
            self._before.clear()
            self._notify()

    def _receive_all(self) -> Optional[errors.BulkheadError]:
        grpc = grpc_library.load()
        try:
            for message in self._call.messages:
                self._silence.heard()
                self._on_message(message)
        except grpc.RpcError as failure:
            try:
                return self._explain(failure)
            finally:
                # It is the call itself, which would keep this frame, the stream and its arena.
                failure.__traceback__ = None
        except errors.BulkheadError as failure:
            return failure if self._closed else self._with_post_mortem(failure)
        except MemoryError:
            return errors.BulkheadError(
                "no memory for a batch; lower batch.size or the credits",
                "RESOURCE_EXHAUSTED",
                code="RESOURCE_EXHAUSTED",
            )
        if self.opened is None:
            return errors.ProtocolError(
                "the service ended the stream before it was opened; client and service may be of "
                "different versions"
            )
        if self._transport is not None and self._transport.in_batch:
            return errors.ProtocolError("the service ended the stream in the middle of a batch")
        return None

    def _explain(self, failure: grpc.RpcError) -> errors.BulkheadError:
        error = errors.from_rpc(failure, self._target, self._post_mortem is not None)
        error = error._saying(self._words(error.message))
        if not (self._closed or self.answered):
            error = self._call.explain(error)
        return error if self._closed else self._with_post_mortem(error)

    def _with_post_mortem(self, error: errors.BulkheadError) -> errors.BulkheadError:
        """The error of a lost service, with the cause of its death if known."""
        post_mortem = self._post_mortem
        if self._relay is not None:
            # While its door is open it lives, and nothing is to be waited for.
            hung_up = self._door is not None and self._door.hung_up()
            post_mortem = self._relay.post_mortem if hung_up else None
        died = post_mortem() if post_mortem is not None and error.reason == "SERVICE_UNAVAILABLE" else ""
        return error._saying(f"{error.message}; {died}") if died else error

    def _on_message(self, message: bytes) -> None:
        item = parse(message)
        if isinstance(item, Part):
            if self._transport is None:
                raise errors.ProtocolError("the service sent a batch before it opened the stream")
            arrived = self._transport.add(item)
            if arrived is not None:
                self._deliver(*arrived)
            return
        kind = item.WhichOneof("response")
        if kind == "progress":
            with self._changed:
                self.opening.note(item.progress)
                self._changed.notify_all()
        elif kind == "opened":
            self._on_opened(item.opened)
        elif kind in ("slot", "event"):
            if self._announcements is not None and self._announcements.open:
                self._announcements.read(self._fail)  # what the service sent there before
            if kind == "slot":
                self._on_slot(item.slot)
            else:
                self._on_event(item.event)
        elif kind == "note":
            if item.note.stage:
                item.note.stage = self._words(item.note.stage)
            else:
                item.note.text = self._words(item.note.text)
            self._events.log_note(item.note)
        elif kind == "heartbeat":
            silent = item.heartbeat.supervisor_silent
            self._silence.told(silent.seconds + silent.nanos * 1e-9)
            self._activity = item.heartbeat.activity
            if self._activity and self.next_sequence == self._first_sequence and time.monotonic() > self._tells_wait_at:
                self._tells_wait_at = math.inf
                _log.warning("the first batch takes more than %g s: %s", _LONG_WAIT, self._words(self._activity))
            if item.heartbeat.idle and not self._idle:
                _log.warning("the service at %s lends this stream's workers to others until a batch is taken", self._target)
            self._idle = item.heartbeat.idle

    def _on_event(self, event) -> None:
        event.message = self._words(event.message)
        if event.kind == proto.KIND_QUARANTINED:
            self._on_quarantined(event)
        else:
            self._events.note(event)

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
        self._events.note(event)

    def _on_slot(self, message) -> None:
        if self._transport is None:
            raise errors.ProtocolError("the service sent a slot of shared memory that was not agreed on")
        self._deliver(message.header, self._transport.take(message))

    def _deliver(self, header, arrays: Dict[str, np.ndarray]) -> None:
        assert self._order is not None
        cursor = self._order.note(header)
        sequence = self._first_sequence + header.sequence
        batch = Batch(arrays, header, sequence, cursor, self.layout)
        with self._changed:
            if self._ended or self._closed:  # given up: the next stream brings it
                return
            # What heartbeats said before is out of date.
            self._silence.told(0.0)
            self._activity = ""
            self._before.append((self._resume, self.next_sequence))
            self._resume = cursor
            self.next_sequence = self._first_sequence + self._order.low_water
            self._ready.append(batch)
            self._last_came = self._order.is_complete
            self._notify()

    def _on_opened(self, opened) -> None:
        if self.opened is not None:
            raise errors.ProtocolError("the service opened the stream twice")
        layout = make_layout(opened.schema)
        self._resume = cursor_to_dict(opened.cursor)
        self._order = self._make_order(opened, layout, self._world_size, self._resume)
        if opened.transport == proto.TRANSPORT_SHM:
            arena = receive_arena(self._door, opened, layout, self._target, lambda: self._closed)
            self._transport = OverArena(arena, self._credits, layout, self._order, self._target)
            if self._credits.batches > arena.slot_count and self._first_sequence == 0:
                _log.warning(
                    "credits=%d is more than this stream's shared memory holds: at most %d batches wait or are held at a time",
                    self._credits.batches, arena.slot_count - 1,
                )
        else:
            self._transport = OverGrpc(self._call, self._credits, layout, self._order, self._changed)
        if opened.announced_at_door:
            if self._transport.name != "shm" or self._door is None:
                raise errors.ProtocolError("the service announces slots of shared memory without any")
            self._announcements = Announcements(self._door, opened.arena_id, self._target)
        with self._changed:
            self._layout = layout
            self.opened = opened
            self.opening.done()
            self._changed.notify_all()
        if self._announcements is not None:
            # Not before it is open: what is wrong with a batch is no error of that.
            self._announcements.begin(self._on_packet)

    def _on_packet(self, kind: str, message) -> None:
        """A packet of the arena door, on the thread that reads it."""
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

    def _notify(self) -> None:
        """Wakes threads that wait for a batch or the end, with `_changed` held."""
        self._changed.notify_all()
        if self._announcements is not None:
            self._announcements.wake()

    # Callers.

    @property
    def answered(self) -> bool:
        """Whether a service has answered at the address, here or at its door."""
        return self._silence.listening or (self._door is not None and self._relay is None)

    @property
    def layout(self) -> Layout:
        assert self._layout is not None
        return self._layout

    @property
    def transport(self) -> str:
        """"shm" or "grpc", once it is opened."""
        assert self._transport is not None
        return self._transport.name

    @property
    def held_slots(self) -> int:
        """Slots of shared memory that the program's arrays keep."""
        with self._changed:
            return self._transport.held_slots(len(self._ready)) if self._transport is not None else 0

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
        """A wait of `moment` seconds took `waited` seconds, and nothing arrived."""
        lost = self._silence.judge(waited, moment, self._target)
        if lost is not None:
            self._fail(lost)

    def wait_opened(self, silence: float, progress: Optional[Callable[[Progress], None]]) -> None:
        """Until the service opened the stream; fails when nothing moved for `silence` seconds."""
        seen: Any = None
        until = time.monotonic() + silence
        while True:
            with self._changed:
                news = self._wait_a_while(
                    lambda: self.opened is not None
                    or self._ended
                    or self._closed
                    or self.opening.news is not None,
                    until,
                )
                self._raise_if_closed()
                # What came last is told first, even when the stream has opened since.
                told = self.opening.take()
                if told is None and self.opened is not None:
                    return
                if told is None and self._error is not None:
                    raise self._error.again()
                if not news and time.monotonic() >= until:
                    raise errors.DeadlineExceeded(
                        f"the service at {self._target} made no progress for {silence:g} s while "
                        "opening the stream",
                        metadata={"target": self._target},
                    )
                if self.opening.facts != seen:
                    seen = self.opening.facts
                    until = time.monotonic() + silence
            if told is not None and progress is not None:
                progress(told)
            if not news and self._relay is not None and self._door is not None and not self._silence.listening:
                check_greeting(
                    self._door, self._target,
                    lambda: self._closed or self._ended or self._silence.listening or time.monotonic() > until,
                )

    def next(self, timeout: float, asked: float) -> Optional[Batch]:
        """The next batch, or None after the last epoch.

        `timeout` is what is left of the `asked` seconds.
        """
        started = time.monotonic()
        until = started + timeout
        transport = self._transport
        assert transport is not None
        transport.begin_wait(started)
        while True:
            if self._door is not None:
                self._door.flush()
            look = until if self._has_news() else min(until, time.monotonic() + transport.free_slots())
            came = self._wait_for_batch(look)
            with self._changed:
                self._raise_if_closed()
                if self._ready:
                    batch = self._ready.popleft()
                    self._before.popleft()
                    transport.hand_out(batch.sequence - self._first_sequence, self._ended)
                    return batch
                if self._ended:
                    if self._error is not None:
                        raise self._error.again()
                    return None
            if not came:
                transport.check_exhausted(until)
                if time.monotonic() >= until:
                    text = f"no batch came from the service at {self._target} within {asked:g} s"
                    if self._activity:
                        text += f"; activity of the workers: {self._activity}"
                    raise errors.DeadlineExceeded(text, metadata={"target": self._target})

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

    def close(self) -> None:
        """Ends the call. Safe to call twice and from a forked child, where it does nothing."""
        if self._owner != os.getpid():
            return
        with self._changed:
            if self._last_came and threading.current_thread() is not self._reader:
                self._changed.wait_for(lambda: self._ended, LAST_WORDS_SECONDS)
            self._closed = True
            self._ready.clear()
            self._before.clear()
            self._notify()
        self._call.cancel()
        if threading.current_thread() is not self._reader:
            self._reader.join(5.0)
        self._call.close()
        live_streams.discard(self)

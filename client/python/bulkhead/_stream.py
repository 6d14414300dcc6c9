"""One call of Loader.Stream and the thread that reads it."""

from __future__ import annotations

import collections
import logging
import os
import queue
import threading
import time
from typing import Any, Callable, Deque, List, NamedTuple, Optional

import grpc

from . import _proto, errors
from ._assembler import Assembler
from ._batch import Batch, Layout, cursor_from_dict, cursor_to_dict, make_layout
from ._wire import Part, parse

_log = logging.getLogger("bulkhead")

_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", 16 << 20),
    ("grpc.max_send_message_length", 16 << 20),
    # Another channel's back-off must not delay this one.
    ("grpc.use_local_subchannel_pool", 1),
    # Batches do not go through a proxy that was meant for web pages.
    ("grpc.enable_http_proxy", 0),
]

# Streams that a forked child inherited; their destructors must not run there.
_inherited: List["Stream"] = []
_live: "set[Stream]" = set()


class Progress(NamedTuple):
    """What the service does before the first batch."""

    files_done: int
    files_total: int
    records: int
    eta: Optional[float]  # seconds
    activity: str


class Substitution(NamedTuple):
    """A sample that could not be produced and whose place another one took."""

    epoch: int
    position: int
    substitute_position: int
    message: str


class Stream:
    """Receives batches ahead of `next`, bounded by the credits.

    reader thread: gRPC → Assembler → queue; callers: wait_opened, next. A batch's credit goes back
    when `next` hands it out: from then on its memory is the caller's. The first error stays.
    Thread-safe.
    """

    def __init__(
        self,
        target: str,
        open_request,
        post_mortem: Callable[[], str],
        first_sequence: int,
        substitutions: Deque[Substitution],
    ):
        """`first_sequence` is what the caller calls the first batch; on the wire it is 0."""
        self._target = target
        self._credits = open_request.credits
        self._post_mortem = post_mortem
        self._owner = os.getpid()
        self._changed = threading.Condition()
        self._ready: Deque[Batch] = collections.deque()
        self._opened: Any = None
        self._layout: Optional[Layout] = None
        self._assembler: Optional[Assembler] = None
        self._progress: Optional[Progress] = None
        self._progress_seen: Any = None
        self._error: Optional[errors.BulkheadError] = None
        self._ended = False
        self._closed = False
        self._held = 0  # batches that began to arrive and are not handed out
        self._first_sequence = first_sequence
        self._resume: Any = None
        self.next_sequence = first_sequence
        self._substitutions = substitutions

        self._requests: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._requests.put(_proto.StreamRequest(open=open_request))
        self._channel = grpc.insecure_channel(target, options=_CHANNEL_OPTIONS)
        start = self._channel.stream_stream(
            "/bulkhead.v1.Loader/Stream",
            request_serializer=_proto.StreamRequest.SerializeToString,
            response_deserializer=None,
        )
        # `None` in the queue ends gRPC's sending thread.
        self._call = start(iter(self._requests.get, None))
        self._reader = threading.Thread(target=self._read, name="bulkhead-reader", daemon=True)
        _live.add(self)
        self._reader.start()

    # The reader thread.

    def _read(self) -> None:
        error: Optional[errors.BulkheadError] = None
        try:
            for message in self._call:
                self._on_message(message)
            if self._opened is None:
                error = errors.ProtocolError("the service ended the stream before it was opened")
            elif self._assembler is not None and self._assembler.in_batch:
                error = errors.ProtocolError("the service ended the stream in the middle of a batch")
        except grpc.RpcError as failure:
            error = self._explain(failure)
        except errors.BulkheadError as failure:
            error = failure
        except MemoryError:
            error = errors.BulkheadError(
                "no memory for a batch; lower batch.size or the credits",
                "RESOURCE_EXHAUSTED",
                code="RESOURCE_EXHAUSTED",
            )
        except Exception as failure:
            error = errors.BulkheadError(f"the loader's reader failed: {failure!r}")
        self._call.cancel()
        self._requests.put(None)
        with self._changed:
            self._ended = True
            self._error = error
            self._changed.notify_all()

    def _explain(self, failure: grpc.RpcError) -> errors.BulkheadError:
        error = errors.from_rpc(failure, self._target)
        if self._closed or error.reason != "SERVICE_UNAVAILABLE":
            return error
        died = self._post_mortem()
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
        elif kind == "event" and item.event.kind == _proto.KIND_SUBSTITUTED:
            self._on_substituted(item.event)

    def _on_substituted(self, event) -> None:
        substitution = Substitution(
            event.epoch, event.position, event.substitute_position, event.message
        )
        if substitution in self._substitutions:
            return  # of a batch that is sent again after a lost connection
        self._substitutions.append(substitution)
        _log.warning("epoch %d, position %d: substituted by position %d: %s", *substitution)

    def _on_part(self, part: Part) -> None:
        if self._assembler is None:
            raise errors.ProtocolError("the service sent a batch before it opened the stream")
        if part.header is not None:
            with self._changed:
                if self._held >= self._credits.batches:
                    raise errors.ProtocolError(
                        f"the service sent more than the {self._credits.batches} batches of credit"
                    )
                self._held += 1
        batch = self._assembler.add(part)
        if batch is not None:
            self._note_progress(batch)
            with self._changed:
                self._ready.append(batch)
                self._changed.notify()

    def _note_progress(self, batch: Batch) -> None:
        batch.sequence += self._first_sequence
        with self._changed:
            self._resume = batch.cursor
            self.next_sequence = batch.sequence + 1

    def _on_progress(self, progress) -> None:
        eta = progress.eta.seconds + progress.eta.nanos * 1e-9 if progress.HasField("eta") else None
        facts = (progress.files_done, progress.files_total, progress.records, progress.activity)
        with self._changed:
            self._progress = Progress(*facts[:3], eta, progress.activity)
            self._progress_seen = facts
            self._changed.notify_all()

    def _on_opened(self, opened) -> None:
        if self._opened is not None:
            raise errors.ProtocolError("the service opened the stream twice")
        layout = make_layout(opened.schema)
        self._resume = cursor_to_dict(opened.cursor)
        self._assembler = Assembler(layout, self._resume, self._credits.batches)
        with self._changed:
            self._layout = layout
            self._opened = opened
            self._changed.notify_all()

    # Callers.

    @property
    def opened(self):
        return self._opened

    @property
    def layout(self) -> Layout:
        assert self._layout is not None
        return self._layout

    def resume_cursor(self):
        """State after the last batch that arrived whole."""
        return cursor_from_dict(self._resume)

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise errors.LoaderClosed("the loader is closed")

    def wait_opened(self, silence: float, progress: Optional[Callable[[Progress], None]]) -> None:
        """Until the service opened the stream; fails when nothing moved for `silence` seconds."""
        seen: Any = None
        until = time.monotonic() + silence
        while True:
            with self._changed:
                news = self._changed.wait_for(
                    lambda: self._opened is not None
                    or self._ended
                    or self._closed
                    or self._progress is not None,
                    until - time.monotonic(),
                )
                self._raise_if_closed()
                if self._opened is not None:
                    return
                if self._error is not None:
                    raise self._error
                if not news:
                    raise errors.DeadlineExceeded(
                        f"the service at {self._target} made no progress for {silence:g} s while "
                        "opening the stream",
                        metadata={"target": self._target},
                    )
                told, self._progress = self._progress, None
                if self._progress_seen != seen:
                    seen = self._progress_seen
                    until = time.monotonic() + silence
            if told is not None and progress is not None:
                progress(told)

    def next(self, timeout: float, asked: float) -> Optional[Batch]:
        """The next batch, or None after the last epoch.

        `timeout` is what is left of the `asked` seconds.
        """
        with self._changed:
            came = self._changed.wait_for(
                lambda: self._ready or self._ended or self._closed, timeout
            )
            self._raise_if_closed()
            if self._ready:
                batch = self._ready.popleft()
                self._held -= 1
                if not self._ended:
                    self._requests.put(
                        _proto.StreamRequest(release={"through_sequence": batch.sequence - self._first_sequence})
                    )
                return batch
            if not came:
                raise errors.DeadlineExceeded(
                    f"no batch came from the service at {self._target} within {asked:g} s",
                    metadata={"target": self._target},
                )
            if self._error is not None:
                raise self._error
            return None

    def close(self) -> None:
        """Ends the call. Safe to call twice and from a forked child, where it does nothing."""
        if self._owner != os.getpid():
            return
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()
        self._call.cancel()
        self._requests.put(None)
        if threading.current_thread() is not self._reader:
            self._reader.join(5.0)
        self._channel.close()
        _live.discard(self)


def close_all() -> None:
    """At interpreter exit: gRPC's threads must not outlive the interpreter."""
    for stream in list(_live):
        stream.close()


def _keep_in_child() -> None:
    _inherited.extend(_live)
    _live.clear()


os.register_at_fork(after_in_child=_keep_in_child)

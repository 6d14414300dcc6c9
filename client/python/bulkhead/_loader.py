"""The loader: what trainers use."""

from __future__ import annotations

import atexit
import os
import socket
import time
import uuid
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from . import _proto, _spec, errors
from ._batch import Batch, TensorSpec, cursor_from_dict, cursor_to_dict
from ._endpoint import Endpoint
from ._healing import HealingStream, close_all
from ._stream import Progress, Substitution

atexit.register(close_all)


class Loader:
    """Batches of a Bulkhead service.

        with bulkhead.Loader("train.yaml") as loader:
            for epoch in range(2):
                for batch in loader:          # what is left of one epoch
                    train(batch["image"], batch["label"])

    `spec` is a path, YAML or JSON text, or a dict. `target` is "host:port" or "unix:/path"; without
    one a service is started for this process and ends with it (loaders with equal `workers`,
    `threads` and `cache_dir` share it).

    A loop gives what is left of one epoch; the next loop goes on with the next epoch, and a loop left
    by `break` is continued by the next. After the last epoch a loop raises EpochsExhausted.

    A service that is lost in mid-stream is no error yet: the loader connects again by itself - an
    embedded service is started again - and the loop sees only a longer wait. It gives up after
    `reconnect_timeout` seconds without a batch; 0 makes the first loss an error.

    `timeout` bounds every wait, in seconds: for a batch, and for preparation that makes no progress.
    `credits` and `credit_bytes` bound what the loader holds ahead of the trainer; batches that it
    handed out are the trainer's own. `progress` is called while the service prepares, on the thread
    that constructs the loader.

    One thread should use a loader. It cannot be used in a forked child: open one there.
    """

    def __init__(
        self,
        spec: _spec.Spec,
        target: Optional[str] = None,
        *,
        name: Optional[str] = None,
        rank: int = 0,
        world_size: int = 1,
        workers: Optional[int] = None,
        threads: Optional[int] = None,
        cache_dir: Optional[str] = None,
        cursor: Optional[Mapping[str, Any]] = None,
        allow_changed_bytes: bool = False,
        timeout: float = 300.0,
        reconnect_timeout: float = 120.0,
        credits: int = 4,
        credit_bytes: int = 256 << 20,
        progress: Optional[Callable[[Progress], None]] = None,
    ):
        self._closed = True  # until there is something to close
        self._endpoint: Optional[Endpoint] = None
        self._stream: Optional[HealingStream] = None
        self._reconnects_before = 0  # in streams that load_state_dict ended
        self._owner = os.getpid()
        if world_size < 1 or not 0 <= rank < world_size:
            raise errors.InvalidArgument(f"rank {rank} is not below world_size {world_size}")
        if credits < 1 or timeout <= 0:
            raise errors.InvalidArgument("credits must be at least 1 and timeout positive")
        if reconnect_timeout < 0:
            raise errors.InvalidArgument("reconnect_timeout must not be negative")
        text, text_name, base_dir = _spec.load(spec)
        self._timeout = timeout
        self._reconnect_timeout = reconnect_timeout
        self._progress = progress
        self._open = _proto.Open(
            spec={"text": {"text": text, "name": text_name}, "base_dir": base_dir},
            # A name that no other loader has: the newer of two of one name supersedes the older.
            name=name or f"py-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}",
            rank=rank,
            world_size=world_size,
            transport=_proto.TRANSPORT_GRPC,
            credits={"batches": credits, "bytes": credit_bytes},
            allow_changed_bytes=allow_changed_bytes,
        )
        message = cursor_from_dict(cursor) if cursor is not None else None
        self._closed = False
        try:
            self._endpoint = Endpoint(target, workers, threads, cache_dir, timeout)
            self._start(message)
        except BaseException:
            self.close()
            raise

    def _start(self, cursor) -> None:
        self._open.incarnation = time.time_ns()
        self._open.ClearField("cursor")
        if cursor is not None:
            self._open.cursor.CopyFrom(cursor)
        assert self._endpoint is not None
        self._stream = HealingStream(self._endpoint, self._open, self._reconnect_timeout)
        self._stream.wait_opened(self._timeout, self._progress)
        opened = self._stream.opened
        self._cursor: Dict[str, Any] = cursor_to_dict(opened.cursor)
        self._epoch: int = opened.cursor.epoch
        self._left: int = opened.batches_left_in_epoch
        self._finished = False

    def _check(self) -> HealingStream:
        if self._owner != os.getpid():
            raise errors.LoaderClosed(
                "this loader belongs to the process that this one was forked from; open a loader "
                "in the child (with PyTorch: no num_workers, the service has its own workers)",
                "FORKED",
            )
        if self._closed or self._stream is None:
            raise errors.LoaderClosed("the loader is closed")
        return self._stream

    # Batches.

    def next_batch(self, timeout: Optional[float] = None) -> Optional[Batch]:
        """The next batch of whatever epoch; None after the last. Waits at most `timeout` seconds.

        After DeadlineExceeded the stream is intact and the call may be repeated.
        """
        batch = self._check().next(self._timeout if timeout is None else timeout)
        if batch is None:
            self._finished = True
            self._left = 0
        else:
            self._cursor = batch.cursor
            self._epoch = batch.epoch
            self._left = batch.batches_left_in_epoch
        return batch

    def __iter__(self) -> Iterator[Batch]:
        self._check()
        return self._rest_of_epoch()

    def _rest_of_epoch(self) -> Iterator[Batch]:
        batch = self._first()
        while batch is not None:
            yield batch
            if batch.last_in_epoch:
                return
            batch = self.next_batch()

    def stream(self) -> Iterator[Batch]:
        """Batches of all epochs that are left, one after the other."""
        batch = self._first()
        while batch is not None:
            yield batch
            batch = self.next_batch()

    def _first(self) -> Batch:
        batch = self.next_batch()
        if batch is None:
            raise errors.EpochsExhausted(
                f"all {self._epoch_count() or self._epoch + 1} epochs that the spec asks for have "
                "been delivered; raise `epochs`, or leave it out to go on forever"
            )
        return batch

    def _epoch_count(self) -> Optional[int]:
        opened = self._check().opened
        return opened.epochs if opened.HasField("epochs") else None

    def __len__(self) -> int:
        """Batches that the next loop will give."""
        opened = self._check().opened
        if self._left > 0 or self._finished:
            return self._left
        count = self._epoch_count()
        return 0 if count is not None and self._epoch + 1 >= count else opened.batches_per_epoch

    def __bool__(self) -> bool:
        return True

    # Facts.

    @property
    def schema(self) -> Tuple[TensorSpec, ...]:
        """The outputs, in the order in which batches give them."""
        return self._check().layout.tensors

    @property
    def batch_size(self) -> int:
        return self._check().layout.batch_size

    @property
    def samples_per_epoch(self) -> int:
        return self._check().opened.samples_per_epoch

    @property
    def batches_per_epoch(self) -> int:
        """Of a whole epoch, on this rank."""
        return self._check().opened.batches_per_epoch

    @property
    def target(self) -> str:
        """Where the service listens; an embedded one that died is replaced by one elsewhere."""
        return self._endpoint.target if self._endpoint is not None else ""

    @property
    def boot_id(self) -> str:
        """Of the service that serves this loader now; changes when it restarts."""
        return self._check().boot_id

    @property
    def reconnects(self) -> int:
        """How often the loader has gone on after it had lost its service."""
        return self._reconnects_before + (self._stream.reconnects if self._stream else 0)

    @property
    def epoch(self) -> int:
        """The epoch of the last batch handed out."""
        return self._epoch

    @property
    def substitutions(self) -> List[Substitution]:
        """The newest samples whose place others took; each is also logged as a warning."""
        return list(self._check().substitutions)

    # Checkpoints.

    def state_dict(self) -> Dict[str, Any]:
        """The cursor after the last batch handed out, ready for JSON."""
        return {**self._cursor, "quarantined": list(self._cursor["quarantined"])}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a cursor; what was prefetched is dropped."""
        message = cursor_from_dict(state)
        stream = self._check()
        stream.close()
        self._reconnects_before += stream.reconnects
        assert self._endpoint is not None
        self._endpoint.revive(self._timeout, lambda: False)
        self._start(message)

    def set_epoch(self, epoch: int) -> None:
        """Goes to the start of `epoch`."""
        if epoch < 0:
            raise errors.InvalidArgument(f"there is no epoch {epoch}")
        self.load_state_dict(
            {**self.state_dict(), "epoch": epoch, "consumed": 0, "substitutions": 0}
        )

    # The end.

    def close(self) -> None:
        """Ends the stream, and the embedded service if no other loader uses it. Idempotent."""
        if self._closed or self._owner != os.getpid():
            return
        self._closed = True
        if self._stream is not None:
            self._stream.close()
        if self._endpoint is not None:
            self._endpoint.close()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the interpreter may be half gone
            pass

"""The loader: what trainers use."""

from __future__ import annotations

import atexit
import functools
import os
import socket
import time
from typing import Any, Dict, Iterator, Mapping, NoReturn, Optional, Sequence, Union

from . import _progress_line, errors
from ._arena import holdings, reaper
from ._batch.batch import (
    UNORDERED_CURSOR_FIELDS,
    Batch,
    copy_cursor,
    cursor_from_dict,
    cursor_to_dict,
)
from ._batch.renaming import Renaming
from ._boundary import ends_at_caller, meant, public
from ._display.loaders import described, described_html
from ._fleet.choice import AnyStream, endpoint_of, stream_of
from ._fleet.fleet_stream import FleetStream
from ._loader_arguments import check, check_cursor, open_request, refuse_unknown
from ._loader_state import LoaderState
from ._progress_line import ProgressOption
from ._rpc import live_streams
from ._rpc.credentials import Credentials
from ._rpc.stream_call import MAX_REQUEST_BYTES
from ._service import arguments, target_file
from ._service.arguments import Folders, Size
from ._service.endpoint import Endpoint
from ._service.status import asked
from ._spec.spec_input import Spec, load
from ._stats import remember
from ._stream.healing import close_all
from ._stream.incarnation import next_incarnation

atexit.register(close_all)

# Bytes of an Open message that are set when it is sent: transport, the arena door's token.
_FIELDS_TO_COME = 1024


def _end(stream: Optional[AnyStream], endpoint: Optional[Endpoint], kept: Any) -> None:
    """`kept`: datasets, which live as long as the service: their memory has a name that the next one would get."""
    try:
        if stream is not None:
            stream.close()
    finally:
        if endpoint is not None:
            endpoint.close()


@public
class Loader(LoaderState):
    """Batches of a Bulkhead service.

        with bulkhead.Loader("train.yaml") as loader:
            for epoch in range(2):
                for batch in loader:          # what is left of one epoch
                    train(batch["image"], batch["label"])

    `spec` is a path, YAML or JSON text, a dict or a Pipeline. `target` is "host:port",
    "unix:/path" or the path of a target file (*.yaml), which has `credentials`, too. Several of them,
    as a list or separated by commas, also in the file, or "dns:///name:port" for all addresses of a
    name, are replicas that make the stream together: the batches and their order are those of one.
    Without a target a service is started for this process and ends with it; loaders with equal options of that service
    share it. The processes of a job on one host share one service: `workers` then counts for all
    ranks together, and the service ends with the last.

    The options of that service mean what bulkheadd's flags of these names mean, with its defaults:
    `workers`, `threads`, `cache_dir`, `worker_quota`, `memory_budget`, `block_cache_bytes` (disk for
    data of buckets) and `coefficient_cache_bytes` (disk for what decoding JPEGs gives; each "512MiB",
    or bytes), `worker_hang_timeout` (seconds), `sandbox`, `metrics` (an address), `log_level`,
    `native_path` (a folder, or several) and `trace_python`.
    `workers` is "auto" by default: as many as the training loop needs. Beside a `target` these
    options are refused. The log is kept in
    `logs` in the cache folder: the newest 16 services, 2 MiB of each.

    `credentials` identify this client and the service at `target` to each other.

    A loop gives what is left of one epoch. The next loop continues with the next epoch, or with
    the rest of the epoch if the loop was left by `break`. After the last epoch a loop raises
    EpochsExhausted.

    A service that is lost during a stream, or while it prepares, is not yet an error: the loader
    connects again by itself, after starting an embedded service again, and the loop sees only a
    longer wait. The loader gives up after `reconnect_timeout` seconds without a batch, not
    counting time in which a service made progress with preparing; 0 makes the first loss an error.
    An address at which nothing ever answered is an error at once.

    `timeout` bounds every wait, in seconds: for a batch, and for preparation that makes no
    progress. `credits` and `credit_bytes` bound what the loader holds ahead of the trainer,
    without the batches that it handed out. Over shared memory `credits` bounds both together, of
    which there are at most 64, and `credit_bytes` does not apply, since that memory is the service's.
    Of several replicas the program may keep any number of batches; of too many it gets copies.

    With `share`, the service makes a batch once for this loader and others of the same spec, order,
    seed, rank and world that stand near it and have `share`, too, as in a sweep of jobs that were
    started together. Bytes, order and cursors are those of a loader alone; one that is too far
    ahead or behind makes its own batches. It has no effect with several replicas.

    Arrays smaller than `copy_below` bytes are copied as a batch is handed out, so that a label
    that is kept does not keep the memory of its whole batch; 0 copies nothing.

    `rename` maps outputs to the names that they have in batches and in `schema`. `progress` is
    called with a Progress while the service prepares, on the thread that constructs the loader.
    True shows a bar of tqdm in a notebook or on a terminal, or without tqdm a line on a terminal; a
    tqdm class or bar is updated.

    `transport` is "auto" by default: a service on a Unix socket shares its memory, and batches are
    not copied. Batches of a service on another host are put into shared memory by a process that the
    loader starts, if the program bulkhead-receive is installed. Where neither is possible, batches
    travel over gRPC, and `transport_reason` says why. "shm" makes it an error (TransportUnavailable)
    when the first opening finds no shared memory; "grpc" never uses shared memory. Over shared memory a batch occupies a slot until the
    last array that views it is gone. When the program holds all slots, next_batch runs Python's
    garbage collector, which may free unused arrays, warns after 5 s, and raises SlotsExhausted
    after 60 s or at `timeout`. Both name the arrays that are kept and where they were taken.
    next_batch goes on once a slot is released; `held_slots` counts them.

    A service that is silent for 10 s, or whose supervisor has been silent for that long, is
    treated as lost; an embedded one is then killed and started again. If a service has no memory
    left for a stream that it had, the loader retries for `reconnect_timeout` seconds, then raises
    BudgetExceeded.

    One thread at a time uses a loader. It cannot be used in a forked child, and no other can be
    opened there while the parent has one open: start processes by multiprocessing's spawn method.
    It cannot be pickled: give another process the spec and `state_dict()`.
    """

    _brief = False  # whether its workers end with it, if no other loader has them

    def __init__(
        self,
        spec: Spec,
        target: Union[str, "os.PathLike[str]", Sequence[str], None] = None,
        *,
        credentials: Optional[Credentials] = None,
        name: Optional[str] = None,
        rank: int = 0,
        world_size: int = 1,
        workers: Union[int, str, None] = None,
        threads: Optional[int] = None,
        cache_dir: Optional[str] = None,
        worker_quota: Optional[Size] = None,
        memory_budget: Optional[Size] = None,
        block_cache_bytes: Optional[Size] = None,
        coefficient_cache_bytes: Optional[Size] = None,
        worker_hang_timeout: Optional[float] = None,
        sandbox: Optional[str] = None,
        metrics: Optional[str] = None,
        log_level: Optional[str] = None,
        native_path: Optional[Folders] = None,
        trace_python: bool = False,
        cursor: Optional[Mapping[str, Any]] = None,
        allow_changed_bytes: bool = False,
        timeout: float = 300.0,
        reconnect_timeout: float = 120.0,
        credits: int = 4,
        credit_bytes: int = 256 << 20,
        copy_below: int = 64 << 10,
        transport: str = "auto",
        share: bool = False,
        rename: Optional[Mapping[str, str]] = None,
        progress: ProgressOption = None,
        **unknown: Any,
    ):
        given = dict(locals())  # every argument, by its name
        self._owner = os.getpid()
        refuse_unknown(type(self), unknown, Loader)
        check(**given)
        own = arguments.checked(**given)
        words, upload = arguments.in_arguments, None
        patience = {"timeout": timeout, "reconnect_timeout": reconnect_timeout}
        self._dataset = self._with_dataset(spec, own, target=target, credentials=credentials, **patience)
        if self._dataset is not None:
            spec, own, _, words, upload = self._dataset
        self._spec = spec  # a Pipeline's list file lives as long as it
        self._timeout = timeout
        self._reconnect_timeout = reconnect_timeout
        self._progress = _progress_line.checked(progress)
        self._renaming = Renaming(rename)
        self._copy_below = copy_below
        self._transport = transport
        if isinstance(target, os.PathLike):
            target = os.fspath(target)
        address, self._credentials = target_file.resolve(target, credentials)
        path = target if target_file.is_target_file(target) else ""
        self._suspended = False  # load_state_dict failed; the next batch reopens the stream
        unique = f"{os.getpid()}-{os.urandom(4).hex()}"
        # A name that no other loader has: the newer of two of one name supersedes the older.
        own_name = name or f"py-{socket.gethostname()}-{unique}"
        source = load(spec)
        self._open = open_request(source, own_name, rank, world_size, credits, credit_bytes, allow_changed_bytes, share)
        self._open.brief = self._brief
        self._spec_name = self._open.spec.text.name
        if upload is not None:
            self._open.datasets.extend(upload.ids)
        message = cursor_from_dict(cursor) if cursor is not None else None
        live_streams.check_fork()
        self._closed = False
        reaper.start()
        try:
            # Processes that share a service know nothing of each other's names.
            suffix = f"-{unique}" if name else ""
            self._endpoint = endpoint_of(address, path, own, timeout, suffix, words, upload)
            self._start(message)
            self._renaming.check([output.name for output in self._check().layout.outputs])
        except errors.SpecError as error:
            self.close()
            raise error._saying(source.in_words(error.message)) from None
        except BaseException:
            self.close()
            raise
        remember(self)

    def _with_dataset(self, spec: Spec, own: arguments.Arguments, **options: Any) -> Any:
        """What becomes of a spec that reads a dataset of the program's (Resolved); None: it reads none."""
        from ._dataset.source import holds_dataset, resolved  # which open loaders themselves

        return resolved(spec, own, **options) if holds_dataset(spec) else None

    def _start(self, cursor) -> None:
        made = next_incarnation()
        self._open.incarnation = made.wall
        self._open.machine_boot, self._open.since_boot = made.machine_boot, made.since_boot
        self._open.ClearField("cursor")
        if cursor is not None:
            self._open.cursor.CopyFrom(cursor)
        size = self._open.ByteSize() + _FIELDS_TO_COME
        if size > MAX_REQUEST_BYTES:
            raise errors.InvalidArgument(
                f"the cursor is not one that a batch gave: with the spec it takes {size} bytes, over "
                f"the limit of {MAX_REQUEST_BYTES} of a request"
            )
        assert self._endpoint is not None
        before = self._stream
        self._stream = stream = stream_of(
            self._endpoint, self._credentials, self._open, self._reconnect_timeout, self._transport
        )
        progress = _progress_line.reporter(self._progress)
        try:
            stream.wait_opened(self._timeout, progress)
        except BaseException as error:
            self._endpoint.name_log_in(error)
            if before is not None:
                self._stream = before  # closed, but it knows what was opened
            stream.close()
            raise
        finally:
            _progress_line.finish(progress)
        if before is not None:
            self._reconnects_before += before.reconnects
        opened = stream.opened
        self._cursor: Dict[str, Any] = cursor_to_dict(opened.cursor)
        self._epoch = opened.cursor.epoch
        self._left = opened.batches_left_in_epoch
        self._finished = False
        self._suspended = False

    # Batches.

    def next_batch(self, timeout: Optional[float] = None) -> Optional[Batch]:
        """The next batch, across epochs; None after the last. Waits at most `timeout` seconds.

        After DeadlineExceeded and SlotsExhausted the stream is intact and the call may be repeated.
        """
        stream = self._check()
        if self._suspended:
            self._start(cursor_from_dict(self._cursor))
            stream = self._check()
        started = time.monotonic()
        try:
            batch = stream.next(self._timeout if timeout is None else timeout)
        except errors.BulkheadError as error:
            if self._endpoint is not None:
                self._endpoint.name_log_in(error)
            raise
        finally:
            self._wait_seconds += time.monotonic() - started
        if batch is None:
            self._finished = True
            self._left = 0
        else:
            self._cursor = batch.cursor
            self._epoch = batch.epoch
            self._left = batch.batches_left_in_epoch
            self._batches += 1
            self._samples += batch.valid_count
            self._bytes += batch.sample_count * sum(stream.layout.sample_bytes)
            if self._renaming.names:
                batch._rename(self._renaming.names)
            batch._copy_small(self._copy_below)
            holdings.note(batch._arrays, batch.sequence)
        return batch

    def __iter__(self) -> Iterator[Batch]:
        self._check()
        return self._rest_of_epoch()

    # A generator keeps no batch that it has given: the slot of shared memory would stay taken.

    @ends_at_caller
    def _rest_of_epoch(self) -> Iterator[Batch]:
        box = [self._first()]
        while box[0] is not None:
            last = box[0].last_in_epoch
            yield box.pop()
            if last:
                return
            box.append(self.next_batch())

    def stream(self) -> Iterator[Batch]:
        """The batches of all remaining epochs."""
        box = [self._first()]
        while box[0] is not None:
            yield box.pop()
            box.append(self.next_batch())

    def _first(self) -> Batch:
        batch = self.next_batch()
        if batch is None:
            count = self._epoch_count() or self._epoch + 1
            all_of_them = "the one epoch that the spec asks for has"
            if count > 1:
                all_of_them = f"all {count} epochs that the spec asks for have"
            raise errors.EpochsExhausted(
                f"{all_of_them} been delivered; raise `epochs`, or leave it out to go on forever"
            )
        return batch

    def _epoch_count(self) -> Optional[int]:
        opened = self._check().opened
        return opened.epochs if opened.HasField("epochs") else None

    def __len__(self) -> int:
        """The number of batches that the next loop will give."""
        opened = self._check().opened
        count = self._epoch_count()
        if count is not None and self._epoch >= count:  # opened behind the last epoch
            return 0
        if self._left > 0 or self._finished:
            return self._left
        return 0 if count is not None and self._epoch + 1 >= count else opened.batches_per_epoch

    def __bool__(self) -> bool:
        return True

    # Facts.

    def __repr__(self) -> str:
        return described(type(self).__name__, self)

    def _repr_html_(self) -> str:
        return described_html(type(self).__name__, self)

    # Checkpoints.

    def state_dict(self) -> Dict[str, Any]:
        """The cursor after the last batch handed out, JSON-serializable."""
        return copy_cursor(self._cursor)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a cursor; prefetched batches are dropped.

        If it fails, the error is raised and nothing has changed: the next batch is the one that would
        have come without the call (its stream is opened again for that).
        """
        check_cursor(state)
        message = cursor_from_dict(state)
        stream = self._check()
        self._suspended = True
        stream.close()
        assert self._endpoint is not None
        self._endpoint.revive(self._timeout, lambda: False)
        self._start(message)

    def set_epoch(self, epoch: int) -> None:
        """Moves to the start of `epoch`."""
        if epoch < 0:
            raise errors.InvalidArgument(f"there is no epoch {epoch}")
        state = self.state_dict()
        for name in UNORDERED_CURSOR_FIELDS:
            state.pop(name, None)
        self.load_state_dict({**state, "epoch": epoch, "consumed": 0, "substitutions": 0})

    def status(self, timeout: float = 10.0) -> Dict[str, Any]:
        """What the loader's service, of several replicas the first, is doing now, as `service_status` returns it.

        `verdicts` says of each pipeline how its workers' memory develops, and which stage keeps memory.
        """
        target = self._stream.target_here if isinstance(self._stream, FleetStream) else self.target
        try:
            return asked(target, timeout, self._credentials)
        except errors.ServiceUnavailable as lost:
            if self._is_open() and self._reconnect_timeout > 0 and self._endpoint is not None:
                action = "starts it again" if self._endpoint.embedded else "connects again"
                lost._advice = f"the loader {action} by itself, at its next batch"
            raise lost._final() from None

    # The end.

    def close(self) -> None:
        """Ends the stream, and the embedded service if no other loader uses it. Idempotent."""
        if self._closed or self._owner != os.getpid():
            return
        self._closed = True
        _end(self._stream, self._endpoint, self._dataset)

    def __reduce__(self) -> NoReturn:
        raise meant(
            TypeError(
                "a Loader cannot be pickled: it is a connection. Give the other process the spec (a "
                "Pipeline can be pickled) and the cursor of state_dict(), and open a loader there"
            )
        )

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # Any thread, any time: ending a stream takes locks and ending a service takes seconds.
        try:
            if not self._closed and self._owner == os.getpid():
                self._closed = True
                reaper.bury(functools.partial(_end, self._stream, self._endpoint, self._dataset))
        except Exception:  # __init__ failed early, or the interpreter is half gone
            pass

"""The state of a loader, and the properties that tell of it."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Tuple

from . import errors
from ._batch.renaming import Renaming
from ._batch.schema import Schema
from ._boundary import public
from ._fleet.choice import AnyStream
from ._service.endpoint import Endpoint
from ._stats import LoaderStats
from ._stream.events import Hang, Substitution


@public
class LoaderState:
    """The stream and the service of a loader, its counts, and the facts that follow from them. The loader sets them."""

    # The state before anything is opened, for `close` and reprs.
    _closed = True
    _endpoint: Optional[Endpoint] = None
    _stream: Optional[AnyStream] = None
    _reconnects_before = 0  # in streams that load_state_dict ended
    _owner = 0
    _spec_name = ""
    _epoch = _batches = _left = _samples = _bytes = 0
    _wait_seconds = 0.0
    _open: Any  # the message that opens the stream
    _renaming: Renaming

    def _is_open(self) -> bool:
        return not self._closed and self._owner == os.getpid()

    def _check(self) -> AnyStream:
        if self._owner != os.getpid():
            raise errors.LoaderClosed(
                "this loader belongs to the process that this one was forked from; use it there, "
                "or start this process by multiprocessing's spawn method and open a loader in it "
                "(with PyTorch's DataLoader: num_workers=0, the service has its own workers)",
                "FORKED",
            )
        if self._closed or self._stream is None:
            raise errors.LoaderClosed(
                "the loader is closed; open another: Loader(spec, cursor=loader.state_dict()) goes on where this "
                "one stood"
            )
        return self._stream

    @property
    def schema(self) -> Schema:
        """The outputs, in the order that they have in batches."""
        return self._schema_of(self._check())

    def _schema_of(self, stream: AnyStream) -> Schema:
        return Schema(output._replace(name=self._renaming.of(output.name)) for output in stream.layout.outputs)

    @property
    def class_names(self) -> Dict[str, Tuple[str, ...]]:
        """By output, the names of its classes in the order of their numbers.

        Of the labels of image folders (names of sub-folders) and of lists whose labels are names,
        as numbers or one-hot.
        """
        return {output.name: output.class_names for output in self.schema if output.class_names}

    @property
    def classes(self) -> Tuple[str, ...]:
        """The names of the label's classes; () if it has none.

        InvalidArgument if several labels have class names: use `class_names`.
        """
        names = self.class_names
        if len(names) > 1:
            raise errors.InvalidArgument(
                f"{', '.join(names)} have classes each: loader.class_names[{next(iter(names))!r}]"
            )
        return next(iter(names.values()), ())

    @property
    def name(self) -> str:
        """The consumer's name; unique unless it was given.

        The service identifies the stream by it. If the processes of a job share the service, a given
        name is followed by the process's number and a random part.
        """
        return str(self._open.name)

    @property
    def rank(self) -> int:
        """This consumer's rank, below the world size."""
        return int(self._open.rank)

    @property
    def stats(self) -> LoaderStats:
        """Counts of what the loader has done. Can also be read after `close`."""
        stream = self._stream if self._is_open() else None
        return LoaderStats(
            self._batches,
            self._samples,
            self._bytes,
            self._wait_seconds,
            self.reconnects,
            stream.ready_batches if stream is not None else 0,
            stream.held_slots if stream is not None else 0,
        )

    @property
    def batch_size(self) -> int:
        """Samples of a full batch."""
        return self._check().layout.batch_size

    @property
    def samples_per_epoch(self) -> int:
        """The samples of an epoch, of all ranks together."""
        return self._check().opened.samples_per_epoch

    @property
    def batches_per_epoch(self) -> int:
        """The batches of a whole epoch, on this rank."""
        return self._check().opened.batches_per_epoch

    @property
    def target(self) -> str:
        """Where the service listens, of several replicas all of them, separated by commas; an embedded service started again has another address."""
        return self._endpoint.target if self._endpoint is not None else ""

    @property
    def transport(self) -> str:
        """How batches travel now: "shm" or "grpc"; a reconnect may change it."""
        return self._check().transport

    @property
    def transport_reason(self) -> str:
        """Why `transport="auto"` uses gRPC; over shared memory which receiver brings batches of a service on another host; else empty."""
        return self._check().transport_reason

    @property
    def held_slots(self) -> int:
        """The slots of the stream's shared memory that the program's arrays keep; 0 over gRPC."""
        return self._check().held_slots

    @property
    def boot_id(self) -> str:
        """Identifies the running service; changes when the service restarts."""
        return self._check().boot_id

    @property
    def reconnects(self) -> int:
        """How often the loader has recovered from a lost service."""
        return self._reconnects_before + (self._stream.reconnects if self._stream else 0)

    @property
    def epoch(self) -> int:
        """The epoch of the last batch handed out."""
        return self._epoch

    @property
    def substitutions(self) -> List[Substitution]:
        """The newest samples that were substituted; the log sums them, and has each at level DEBUG."""
        return list(self._check().events.substitutions)

    @property
    def quarantined(self) -> Dict[str, str]:
        """Records that ended several workers while this loader ran, and how they did.

        They are left out from then on, and are in the cursors. Each is also logged as a warning.
        """
        return dict(self._check().events.quarantined)

    @property
    def hangs(self) -> List[Hang]:
        """The newest samples at which a worker hung until the service ended it.

        Other workers try them again; one that hangs those too is quarantined. Each is also logged
        as a warning.
        """
        return list(self._check().events.hangs)

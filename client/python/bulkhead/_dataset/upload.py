"""A dataset at a service that somebody else started (bulkheadd --allow-datasets)."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from .. import errors
from .._rpc import grpc_library, live_streams, proto
from .._rpc.connection import Connection
from .._rpc.credentials import Credentials
from .._rpc.starting import started
from .image import Image

_log = logging.getLogger("bulkhead")

# What the service takes at once: DatasetStore::kMostPartBytes.
_PART_BYTES = 4 << 20
# For the answer to a part, which may wait until the service has hashed the whole.
_PATIENCE_SECONDS = 30.0
_SECONDS_PER_BYTE = 8.0 / (1 << 30)
# For room that others have who bring datasets at the same time.
_BUSY_SECONDS = 30.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
# How often it begins, if the service drops meanwhile what was sent.
_MOST_BEGINNINGS = 4
_LOOK_SECONDS = 0.1  # whether the loader was closed


class Upload:
    """Sends datasets, and the list of the sampler of the first if there is one, to a service. Open then names them by `ids`.

    Thread-safe.
    """

    def __init__(self, images: Sequence[Image], listed: bool):
        self._images = {image.digest(): image for image in images}
        self._list = images[0].list_to_send() if listed else None
        digests = [image.digest() for image in images]
        self.ids: List[str] = [digests[0], self._list.place.id if self._list is not None else "", *digests[1:]]

    def send(
        self,
        target: str,
        credentials: Credentials,
        authority: str = "",
        closed: Callable[[], bool] = lambda: False,
    ) -> None:
        """Sends what the service lacks, and blocks until it has all, or until `closed`. `authority`: the name in its
        certificate, if that is not the target's. Errors: BulkheadError with reason DATASET_REFUSED where it takes no datasets
        or has no room, TOO_MANY_CALLS where others' took the room for 30 s, DATASET_UNKNOWN where it drops again and again
        what was sent; AccessDenied, LoaderClosed, DeadlineExceeded, those of Connection."""
        for image in self._images.values():
            image.check_process()
        live_streams.check_fork()
        options: List[Tuple[str, Any]] = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
        if authority:
            options.append(("grpc.ssl_target_name_override", authority))
        with contextlib.closing(Connection(target, credentials, options)) as connection:
            put = connection.channel.unary_unary(
                "/bulkhead.v1.Loader/PutDataset",
                request_serializer=proto.PutDatasetRequest.SerializeToString,
                response_deserializer=proto.PutDatasetResponse.FromString,
            )
            service = _Service(put, target, closed)
            try:
                for digest, image in self._images.items():
                    _send_image(service, digest, image)
                if self._list is not None:
                    _send_list(service, self._list)
            except errors.BulkheadError as failure:
                raise connection.explain(failure) from None


class _Service:
    """Takes parts."""

    def __init__(self, put: Any, target: str, closed: Callable[[], bool]):
        self._put = put
        self.target = target
        self._closed = closed

    def check_open(self) -> None:
        if self._closed():
            raise errors.LoaderClosed("the loader is closed")

    def put(self, id: str, whole: int, offset: int, data: bytes) -> Any:
        """The answer; asks again while others' datasets take the room."""
        request = proto.PutDatasetRequest(id=id, size=whole, offset=offset, data=data)
        until, pause = time.monotonic() + _BUSY_SECONDS, _FIRST_PAUSE
        while True:
            self.check_open()
            try:
                return self._answer(request)
            except errors.BulkheadError as failure:
                if failure.reason != "TOO_MANY_CALLS" or time.monotonic() >= until:
                    raise
            self._wait(threading.Event(), pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _answer(self, request: Any) -> Any:
        answered = threading.Event()
        patience = _PATIENCE_SECONDS + request.size * _SECONDS_PER_BYTE
        call = started(lambda: self._put.future(request, timeout=patience))
        try:
            call.add_done_callback(lambda _: answered.set())
            self._wait(answered, float("inf"))
            return call.result()
        except grpc_library.load().RpcError as failure:
            raise _error_of(failure, self.target) from None
        finally:
            call.cancel()

    def _wait(self, event: threading.Event, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not event.wait(max(min(_LOOK_SECONDS, until - time.monotonic()), 0.0)) and time.monotonic() < until:
            self.check_open()


def _send_image(service: _Service, digest: str, image: Image) -> None:
    size = image.size()
    have = service.put(digest, size, 0, b"").have
    if have < size:
        _log.info("the dataset goes to the service at %s: %d bytes", service.target, size - have)
    beginnings = 0
    while have < size:
        if have == 0:
            beginnings += 1
            if beginnings > _MOST_BEGINNINGS:
                raise _dropped(service.target)
        have = service.put(digest, size, have, image.part(have, _PART_BYTES)).have


def _send_list(service: _Service, listed: ListToSend) -> None:
    place = listed.place
    for _ in range(_MOST_BEGINNINGS):
        boot = service.put(place.id, place.room, 0, b"").boot_id
        with place.alone(boot, service.check_open):
            there = service.put(place.id, place.room, 0, b"")
            if place.has(boot, listed) and there.boot_id == boot and there.have >= listed.length:
                return  # and streams may read it
            place.note(boot, None)
            for offset, data in listed.parts(_PART_BYTES):
                there = service.put(place.id, place.room, offset, data)
                if there.have == 0 or there.boot_id != boot:
                    break
            else:
                place.note(boot, listed)
                return
    raise _dropped(service.target)


def _dropped(target: str) -> errors.BulkheadError:
    return errors.BulkheadError(
        f"the service at {target} dropped the dataset while it was sent, {_MOST_BEGINNINGS} times, for others' room; start "
        "bulkheadd with a larger --dataset-bytes",
        "DATASET_UNKNOWN",
        code="FAILED_PRECONDITION",
    )


def _error_of(failure: Any, target: str) -> errors.BulkheadError:
    if failure.code().name == "UNIMPLEMENTED":
        return errors.BulkheadError(
            f"the service at {target} is of a version that takes no datasets: leave target out, or start a newer bulkheadd",
            "DATASET_REFUSED",
            code="UNIMPLEMENTED",
        )
    return errors.from_rpc(failure, target)


class ListPlace:
    """Where services have the lists of a sampler: a place that is written again for each epoch, so that workers stay.

    Thread-safe.
    """

    def __init__(self, id: str, room: int):
        self.id = id
        self.room = room
        self._there: Dict[str, Optional[ListToSend]] = {}  # by the boot of a service
        self._writing: Dict[str, threading.Lock] = {}

    @contextlib.contextmanager
    def alone(self, boot: str, check_open: Callable[[], None]) -> Iterator[None]:
        """No other thread writes the list of that service meanwhile."""
        lock = self._writing.setdefault(boot, threading.Lock())
        while not lock.acquire(timeout=_LOOK_SECONDS):
            check_open()
        try:
            yield
        finally:
            lock.release()

    def has(self, boot: str, listed: ListToSend) -> bool:
        """Whether that list was written whole; a service that does not name its boot may be another one."""
        return bool(boot) and self._there.get(boot) is listed

    def note(self, boot: str, listed: Optional[ListToSend]) -> None:
        self._there[boot] = listed


class ListToSend:
    """The list of an epoch."""

    def __init__(self, place: ListPlace, head: bytes, body: bytes):
        self.place = place
        self.length = len(head) + len(body)
        self._head, self._body = head, body

    def parts(self, most: int) -> Iterator[Tuple[int, bytes]]:
        """Offsets and bytes, in their order: until the last one has come, the list is of no epoch."""
        yield 0, bytes(len(self._head))
        for at in range(0, len(self._body), most):
            yield len(self._head) + at, self._body[at : at + most]
        yield 0, self._head


def of_target(images: Sequence[Image], target: Optional[Any], listed: bool) -> Optional[Upload]:
    """None: the service of this process opens the datasets' memory itself."""
    return None if target is None else Upload(images, listed)

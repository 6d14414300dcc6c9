"""A dataset at a service that somebody else started (bulkheadd --allow-datasets)."""

from __future__ import annotations

import contextlib
import logging
from typing import Any, Iterator, List, Optional, Sequence, Tuple

from .. import errors
from .._rpc import grpc_library, live_streams, proto
from .._rpc.connection import Connection
from .._rpc.credentials import Credentials
from .image import Image

_log = logging.getLogger("bulkhead")

# What the service takes at once: DatasetStore::kMostPartBytes.
_PART_BYTES = 4 << 20
# For the answer to a part; the last one is answered when the service has hashed all.
_PATIENCE_SECONDS = 300.0


class Upload:
    """Sends datasets, and the list of the sampler of the first if there is one, to a service. Open then names them by `ids`.

    Thread-safe.
    """

    def __init__(self, images: Sequence[Image], listed: bool):
        self._images = {image.digest(): image for image in images}
        self._list = images[0].list_to_send() if listed else None
        digests = [image.digest() for image in images]
        self.ids: List[str] = [digests[0], self._list.id if self._list is not None else "", *digests[1:]]

    def send(self, target: str, credentials: Credentials, authority: str = "") -> None:
        """Sends what the service lacks, and blocks until it has all. `authority`: the name in its certificate, if that is not
        the target's. Errors: BulkheadError with reason DATASET_REFUSED where it takes no datasets or has no room,
        AccessDenied, those of Connection."""
        for image in self._images.values():
            image.check_process()
        live_streams.check_fork()
        options: List[Tuple[str, Any]] = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
        if authority:
            options.append(("grpc.ssl_target_name_override", authority))
        grpc = grpc_library.load()
        with contextlib.closing(Connection(target, credentials, options)) as connection:
            put = connection.channel.unary_unary(
                "/bulkhead.v1.Loader/PutDataset",
                request_serializer=proto.PutDatasetRequest.SerializeToString,
                response_deserializer=proto.PutDatasetResponse.FromString,
            )
            try:
                self._put(put, target)
            except grpc.RpcError as failure:
                raise connection.explain(_error_of(failure, target)) from None

    def _put(self, put: Any, target: str) -> None:
        def ask(id: str, whole: int, offset: int, data: bytes) -> int:
            request = proto.PutDatasetRequest(id=id, size=whole, offset=offset, data=data)
            return put(request, timeout=_PATIENCE_SECONDS).have

        for digest, image in self._images.items():
            size = image.size()
            have = ask(digest, size, 0, b"")
            if have < size:
                _log.info("the dataset goes to the service at %s: %d bytes", target, size - have)
            while have < size:
                have = ask(digest, size, have, image.part(have, _PART_BYTES))
                if have == 0:
                    raise _dropped()
        if self._list is not None:
            for offset, data in self._list.parts(_PART_BYTES):
                have = ask(self._list.id, self._list.room, offset, data)
            if have < self._list.length:
                raise _dropped()


def _dropped() -> errors.BulkheadError:
    return errors.BulkheadError(
        "the service dropped a dataset while it was sent, for another one's room; start bulkheadd with a larger --dataset-bytes",
        "DATASET_REFUSED",
    )


def _error_of(failure: Any, target: str) -> errors.BulkheadError:
    if failure.code().name == "UNIMPLEMENTED":
        return errors.BulkheadError(
            f"the service at {target} is of a version that takes no datasets: leave target out, or start a newer bulkheadd",
            "DATASET_REFUSED",
            code="UNIMPLEMENTED",
        )
    return errors.from_rpc(failure, target)


class ListToSend:
    """The list of an epoch, at one place of the service that is written again for each epoch, so that workers stay."""

    def __init__(self, id: str, room: int, head: bytes, body: bytes):
        self.id = id
        self.room = room
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

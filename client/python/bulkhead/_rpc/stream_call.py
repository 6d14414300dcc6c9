"""A call of Loader.Stream on a channel of its own."""

from __future__ import annotations

import queue
from typing import Any, Iterable, Iterator, List, Optional, Protocol, Tuple

from ..errors import BulkheadError, ServiceUnavailable
from . import proto
from .connection import Connection, explained
from .credentials import Credentials
from .starting import started

# What a service takes of one request: kMaxRequestBytes in server/service/loader_server.cc.
MAX_REQUEST_BYTES = 8 << 20

_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", 16 << 20),
    ("grpc.max_send_message_length", MAX_REQUEST_BYTES),
    # An error's text travels percent-encoded, in which a letter beyond ASCII takes 6 to 12 bytes.
    ("grpc.max_metadata_size", 64 << 10),
    # Another channel's back-off must not delay this one.
    ("grpc.use_local_subchannel_pool", 1),
    # Batches do not go through a proxy that was meant for web pages.
    ("grpc.enable_http_proxy", 0),
]


class Relay(Protocol):
    """A process on this host that makes a call in place of gRPC in this one."""

    target: str  # where it listens

    def metadata(self, target: str, credentials: Credentials, authority: str) -> List[Tuple[str, bytes]]:
        """What tells it whom to call; `authority`: as of a StreamCall."""

    def post_mortem(self) -> str:
        """How it ended; empty while it runs."""


class _NoCall:
    """Stands for a call's messages if there is no service."""

    def __init__(self, failure: ServiceUnavailable):
        self._failure = failure

    def __iter__(self) -> Iterator[bytes]:
        raise self._failure.again()

    def cancel(self) -> None:
        pass


class StreamCall:
    """Begins with `open_request`. Iterate over `messages` for what comes, serialized. Thread-safe.

    Errors are those of Connection; that nothing listens comes with the messages, as a loss does.
    """

    def __init__(
        self, target: str, credentials: Credentials, open_request, authority: str = "", relay: Optional[Relay] = None
    ):
        """`authority`: the name in the service's certificate, if that is not the target's. `relay`: what makes the call."""
        self._target, self._credentials, self._relay = target, credentials, relay
        address, known = (target, credentials) if relay is None else (relay.target, Credentials())
        self._requests: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._requests.put(proto.StreamRequest(open=open_request))
        self.connection: Optional[Connection] = None
        self.messages: Any
        options = [*_CHANNEL_OPTIONS, *([("grpc.ssl_target_name_override", authority)] if authority and relay is None else [])]
        try:
            metadata = None if relay is None else relay.metadata(target, credentials, authority)
            self.connection = Connection(address, known, options)
        except ServiceUnavailable as failure:
            failure._advice += ", then go on from the last cursor"
            self.messages = _NoCall(failure.again())
            return
        call = self.connection.channel.stream_stream(
            "/bulkhead.v1.Loader/Stream",
            request_serializer=proto.StreamRequest.SerializeToString,
            response_deserializer=None,
        )
        # `None` in the queue ends gRPC's sending thread.
        try:
            self.messages = started(lambda: call(iter(self._requests.get, None), metadata=metadata))
        except BaseException:
            self.connection.close()
            raise

    def explain(self, failure: BulkheadError) -> BulkheadError:
        """`failure` of a call that nothing has answered, with the problem of TLS if that is the cause."""
        if self.connection is None:
            return failure
        return explained(failure, self._target, self._credentials)

    def release(self, through: int) -> None:
        """Gives back the credits of the batches up to that one."""
        self._requests.put(proto.StreamRequest(release={"through_sequence": through}))

    def assign(self, sequences: Iterable[int], needed_from: int, last: bool = False) -> None:
        """Asks for batches; those before `needed_from` are no longer needed, and after the `last` ones none is asked for."""
        self._requests.put(proto.StreamRequest(assign={"sequences": sequences, "needed_from": needed_from, "last": last}))

    def cancel(self) -> None:
        """Ends the call; what came before can still be read."""
        self.messages.cancel()
        self._requests.put(None)

    def close(self) -> None:
        """Ends the channel."""
        if self.connection is not None:
            self.connection.close()

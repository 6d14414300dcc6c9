"""One service or several: what a loader's `target` decides."""

from __future__ import annotations

from typing import Any, Callable, Union

from .._rpc.credentials import Credentials
from .._service.arguments import Arguments
from .._service.endpoint import Endpoint
from .._stream.healing import HealingStream
from .fleet_stream import FleetStream
from .replicas import FleetEndpoint, is_fleet, named_by

AnyEndpoint = Union[Endpoint, FleetEndpoint]
AnyStream = Union[HealingStream, FleetStream]


def endpoint_of(
    target: Any,
    path: str,
    own: Arguments,
    timeout: float,
    suffix: str,
    words: Callable[[str], str],
    upload: Any = None,
) -> AnyEndpoint:
    """Where the loader's service is; `path`: the target file that says so, or empty; `upload`: the dataset that goes there
    (Endpoint)."""
    targets = named_by(target)
    if targets is None and path and not target.startswith("unix:"):
        targets = [target]  # the file may name more of them later
    if targets is not None and (path or is_fleet(targets)):
        return FleetEndpoint(targets, own, path, words, upload)
    return Endpoint(targets[0] if targets else target, own, timeout, suffix, words, upload)


def stream_of(
    endpoint: AnyEndpoint, credentials: Credentials, open_request: Any, deadline: float, transport: str
) -> AnyStream:
    """The stream from the service, or from the services, at the endpoint."""
    if isinstance(endpoint, FleetEndpoint):
        return FleetStream(endpoint, credentials, open_request, deadline, transport)
    return HealingStream(endpoint, credentials, open_request, deadline, transport)

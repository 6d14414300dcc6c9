"""One service or several: what a loader's `target` decides."""

from __future__ import annotations

from typing import Any, Callable, Union

from .._rpc.credentials import Credentials
from .._service.arguments import Arguments
from .._service.endpoint import Endpoint, check_target
from .._stream.healing import HealingStream
from .fleet_stream import FleetStream
from .replicas import FleetEndpoint, is_fleet, named_by

AnyStream = Union[HealingStream, FleetStream]


def endpoint_of(
    target: Any,
    path: str,
    own: Arguments,
    timeout: float,
    suffix: str,
    words: Callable[[str], str],
    upload: Any = None,
) -> Endpoint:
    """Where the loader's service is; `path`: the target file that says so, or empty; `upload`: the dataset that goes there
    (Endpoint)."""
    targets = named_by(target)
    if targets is None and path and not target.startswith("unix:"):
        targets = [target]  # the file may name more of them later
    if targets is not None and (path or is_fleet(targets)):
        return FleetEndpoint(targets, own, path, words, upload)
    if targets is None and target is not None:
        check_target(target)
    return Endpoint(targets[0] if targets else target, own, timeout, suffix, words, upload)


def stream_of(
    endpoint: Endpoint, credentials: Credentials, open_request: Any, deadline: float, transport: str
) -> AnyStream:
    """The stream from the service, or from the services, at the endpoint."""
    if isinstance(endpoint, FleetEndpoint):
        return FleetStream(endpoint, credentials, open_request, deadline, transport)
    return HealingStream(endpoint, credentials, open_request, deadline, transport)

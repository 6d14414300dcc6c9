"""The process that receives the batches of a service on another host, and puts them into shared memory."""

from __future__ import annotations

import os
from typing import Callable, List, Tuple

from .._rpc import tls
from .._rpc.credentials import Credentials
from ..errors import ServiceNotFound
from . import embedded, service_process
from .own_process import OwnProcess

_PROGRAM = "bulkhead-receive"


def find_program() -> str:
    """bulkhead-receive beside the bulkheadd that a loader without a target would start. ServiceNotFound."""
    try:
        beside = os.path.dirname(service_process.find_program())
    except ServiceNotFound:
        raise ServiceNotFound(f"{_PROGRAM} is not installed, as there is no bulkheadd beside which it would be") from None
    program = os.path.join(beside, _PROGRAM)
    if not os.access(program, os.X_OK):
        raise ServiceNotFound(f"there is no {_PROGRAM} beside {beside}/bulkheadd", metadata={"program": program})
    return program


class Receiver(OwnProcess):
    """bulkhead-receive: a client calls it in place of the service, and it calls the service (server/receiver)."""

    def __init__(self, timeout: float, cancelled: Callable[[], bool]):
        """Errors: those of find_program and OwnProcess."""
        embedded.refuse_in_worker()
        super().__init__("receiver", [find_program()], timeout, cancelled)

    def metadata(self, target: str, credentials: Credentials) -> List[Tuple[str, bytes]]:
        """What tells it where the service is, and how they identify each other: only this user can read what is sent to it.

        CredentialsInvalid for files that cannot be used.
        """
        tls.channel_credentials(credentials)
        said = [("target", target)]
        for field in ("ca", "cert", "key", "token_file"):
            path = getattr(credentials, field)
            if path is not None:
                said.append((field.replace("_", "-"), os.path.abspath(path)))
        return [(f"bulkhead-{name}-bin", os.fsencode(value)) for name, value in said]

"""The process that receives the batches of a service on another host, and puts them into shared memory."""

from __future__ import annotations

import os
import threading
import time
from typing import Callable, List, Optional, Tuple

from .. import errors
from .._rpc import tls
from .._rpc.credentials import Credentials
from ..errors import ServiceNotFound
from . import embedded, service_process
from .own_process import OwnProcess

_PROGRAM = "bulkhead-receive"
_START_SECONDS = 5.0
# One that was lost so often in a row without bringing a batch dies of what it receives.
_MOST_LOST = 3


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

    def metadata(self, target: str, credentials: Credentials, authority: str) -> List[Tuple[str, bytes]]:
        """What tells it where the service is, and how they identify each other: only this user can read what is sent to it.

        CredentialsInvalid for files that cannot be used.
        """
        said = [("target", target), ("authority", authority)]
        if target.startswith("unix:"):
            said.append(("socket-user", credentials.socket_user or ""))
        else:
            tls.channel_credentials(credentials)
            files = ((field, getattr(credentials, field)) for field in ("ca", "cert", "key", "token_file"))
            said += [(field.replace("_", "-"), os.path.abspath(path)) for field, path in files if path is not None]
        return [(f"bulkhead-{name}-bin", os.fsencode(value)) for name, value in said if value]


class Receivers:
    """The receiver of a loader, one for all its streams; another one when it was lost. Thread-safe."""

    def __init__(self) -> None:
        self._starting = threading.Lock()  # held while one starts: the others wait for that
        self._lock = threading.Lock()
        self._closed = False
        self._lost = 0  # without a batch since
        self._never = ""  # why there cannot be any
        self._failure: Optional[errors.BulkheadError] = None  # of the last start
        self._failed_at = 0.0
        self.receiver: Optional[Receiver] = None

    def living(self, patience: float, closed: Callable[[], bool]) -> Receiver:
        """The one that runs; starts one if there is none, for which it waits at most `patience` seconds.

        ServiceNotFound, ServiceStartFailed, OutOfThreads; LoaderClosed once it is closed, or the loader `closed`.
        """
        asked_at = time.monotonic()
        with self._starting:
            if self._never:
                raise errors.ServiceStartFailed(self._never)
            if self._failure is not None and self._failed_at > asked_at:  # while this thread waited for it
                raise self._failure.again()
            try:
                return self._living(patience, closed)
            except errors.LoaderClosed:
                raise
            except errors.BulkheadError as failure:
                self._lost += 1
                self._failure, self._failed_at = failure.again(), time.monotonic()
                if isinstance(failure, ServiceNotFound) or self._lost >= _MOST_LOST:
                    self._never = failure.message
                raise

    def _living(self, patience: float, closed: Callable[[], bool]) -> Receiver:
        receiver = self.receiver
        if receiver is not None:
            if receiver.alive():
                return receiver
            died = receiver.post_mortem()
            receiver.stop()
            self.receiver = None
            if self._lost + 1 >= _MOST_LOST:
                raise errors.ServiceStartFailed(f"{died}, as did {self._lost} before it")
            self._lost += 1
        fresh = Receiver(min(patience, _START_SECONDS), closed)
        with self._lock:
            too_late = self._closed
            self.receiver = None if too_late else fresh
        if too_late:
            fresh.stop()
            raise errors.LoaderClosed("the loader is closed")
        return fresh

    def brought_batch(self) -> None:
        self._lost = 0

    def kill(self, which: Optional[Receiver]) -> None:
        """It may hang; another one is started when it is needed. Nothing if there is another one already."""
        with self._lock:
            if which is None or self.receiver is not which:
                return
            self.receiver = None
        which.kill()
        which.stop()

    def source(self, target: str) -> str:
        """Who brings batches from `target` into shared memory; empty while nobody does."""
        receiver = self.receiver
        return f"{_PROGRAM} (pid {receiver.pid}) brings them from {target}" if receiver is not None else ""

    def close(self) -> None:
        with self._lock:
            self._closed = True
            receiver, self.receiver = self.receiver, None
        if receiver is not None:
            receiver.stop()

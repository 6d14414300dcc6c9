"""How a loader's streams come to shared memory: through the service on this host, or through a receiver."""

from __future__ import annotations

import threading
import time
from typing import Callable, Optional

from .. import errors
from .._arena import door as door_module
from .._arena.door import Door, DoorError
from .._rpc.credentials import Credentials
from .._service.endpoint import Endpoint
from .._service.receiver import Receivers


class SharedMemory:
    """The door of the service, or that of a receiver in front of a service on another host; one for all streams as long as it lasts.

    `open` is called by one thread at a time, the rest by any.
    """

    def __init__(self, endpoint: Endpoint, credentials: Credentials, wanted: bool):
        self._endpoint = endpoint
        self._credentials = credentials
        self._wanted = wanted
        self._lock = threading.Lock()
        self._closed = False
        self._never = ""  # why there cannot be any
        self.receivers = Receivers()
        self.door: Optional[Door] = None
        self.reason = ""  # why there is no door now

    def open(self, patience: float, closed: Callable[[], bool]) -> Optional[Door]:
        """The door, or None and the `reason`. Waits at most `patience` seconds, and asks now and then whether the loader is `closed`."""
        self.reason = self._never
        if not self._wanted or self._never:
            return None
        old = self.door
        fresh: Optional[Door] = None
        until = time.monotonic() + door_module.SECOND_WELCOME_SECONDS
        for _ in range(2):
            path = self._path(patience, closed)
            if path is None:
                break
            if old is not None and old.path == path and not old.hung_up():
                return old
            try:
                seconds = min(patience, door_module.WELCOME_SECONDS, until - time.monotonic())
                fresh = Door(path, seconds, closed, self._credentials.socket_user)
                break
            except DoorError as failure:
                self.reason = str(failure)
                if self.receivers.receiver is None:
                    break
                self.kill_receiver()  # it hangs, or has just ended
        with self._lock:
            self.door = fresh
            too_late = self._closed
        if old is not None:
            old.close()
        if too_late and fresh is not None:
            fresh.close()
        return fresh

    def _path(self, patience: float, closed: Callable[[], bool]) -> Optional[str]:
        """Where the door is; starts a receiver if one is needed."""
        path = door_module.path_of(self._endpoint.target)
        if path is not None:
            return path
        try:
            return door_module.path_of(self.receivers.living(patience, closed).target)
        except errors.LoaderClosed:
            raise
        except errors.BulkheadError as failure:
            self.reason = f"{self._endpoint.target} is not a Unix socket, and {failure.message}"
            return None

    def give_up(self, reason: str) -> None:
        """It cannot be used here."""
        self._never = reason
        self.kill_receiver()

    def has_lost_receiver(self) -> bool:
        """Whether batches came through a receiver, and that is gone."""
        return self.receivers.receiver is not None and (self.door is None or self.door.hung_up())

    def kill_receiver(self) -> None:
        """The service is silent, or the receiver is: the next `open` starts another."""
        self.receivers.kill(self.receivers.receiver)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            door, self.door = self.door, None
        if door is not None:
            door.close()
        self.receivers.close()

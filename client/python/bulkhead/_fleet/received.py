"""Shared memory for the streams of a fleet's replicas: bulkhead-receive puts their batches there."""

from __future__ import annotations

import time
from typing import Callable, NamedTuple, Optional

from .. import errors
from .._arena import door as door_module
from .._arena.door import Door, DoorError
from .._service.receiver import Receiver, Receivers


class Received(NamedTuple):
    """A receiver, and a door of it, of one stream alone."""

    receiver: Receiver
    door: Door


class ReceivedMemory:
    """One receiver for all streams of a fleet; each has a door of its own. Thread-safe."""

    def __init__(self, wanted: bool):
        """Not `wanted`: batches come over gRPC."""
        self.receivers = Receivers()
        self.wanted = wanted
        self.reason = ""  # why batches came over gRPC when that was last so

    def open(self, patience: float, closed: Callable[[], bool]) -> Optional[Received]:
        """For a stream that is about to open; None, and the `reason`, where there is no shared memory.

        Waits about `patience` seconds at most. LoaderClosed once it is closed, or the loader `closed`.
        """
        until = time.monotonic() + door_module.SECOND_WELCOME_SECONDS
        for _ in range(2 if self.wanted else 0):
            try:
                receiver = self.receivers.living(patience, closed)
            except errors.LoaderClosed:
                raise
            except errors.BulkheadError as failure:
                self.reason = failure.message
                break
            try:
                seconds = min(patience, door_module.WELCOME_SECONDS, until - time.monotonic())
                path = door_module.path_of(receiver.target)
                assert path is not None
                return Received(receiver, Door(path, seconds, closed))
            except DoorError as failure:  # it hangs, or has just ended
                self.reason = str(failure)
                self.receivers.kill(receiver)
        return None

    def give_up(self, reason: str) -> None:
        """It cannot be used here."""
        self.wanted, self.reason = False, reason

"""A stream's slots and events as packets of the arena door."""

from __future__ import annotations

from typing import Any, Callable

from ..errors import BulkheadError, ProtocolError, ServiceUnavailable
from .door import Door, DoorClosed, DoorError, DoorTorn, Listener
from .wake import Wake

Fail = Callable[[BulkheadError], None]  # told what is wrong with the stream


class Announcements:
    """The announcements of one arena. The thread that waits for a batch reads them, so no other thread is woken.

    begin → wait, read … → end. Thread-safe; keeps nothing of its stream, which holds it.
    """

    def __init__(self, door: Door, arena_id: int, target: str):
        """Raises BulkheadError when the process may open no more files."""
        self._door = door
        self._arena_id = arena_id
        self._target = target
        self.open = True  # more may come here
        try:
            self._wake = Wake(door.fileno())
        except OSError as failure:
            raise BulkheadError(
                f"the loader cannot wait for its batches: {failure.strerror}",
                "RESOURCE_EXHAUSTED",
                code="RESOURCE_EXHAUSTED",
            ) from None

    def begin(self, on_packet: Callable[[str, Any], None]) -> None:
        """Passes packets on from now on, beginning with those that arrived before."""
        self._door.listen(Listener(self._arena_id, on_packet))

    def end(self) -> None:
        """Reads what is left, then ends. Raises as `read` does."""
        try:
            self._door.stop_listening(self._arena_id)
        except DoorTorn:
            raise self._interrupted() from None
        except DoorError as failure:
            raise ProtocolError(str(failure)) from None

    def wait(self, seconds: float, done: Callable[[], bool], fail: Fail) -> None:
        """Waits at most `seconds` until it is `done`, and reads meanwhile."""
        self._wake.wait(seconds, done)
        if not done():
            self.read(fail, done)

    def wake(self) -> None:
        """Makes a waiting thread check again whether it is done."""
        self._wake.wake()

    def read(self, fail: Fail, enough: Callable[[], bool] = lambda: False) -> None:
        """Reads all that arrived, until `enough`."""
        try:
            self._door.pump(enough)
        except DoorClosed:  # the service says so on the stream, or is gone
            self.open = False
        except DoorTorn:
            fail(self._interrupted())
        except DoorError as failure:
            fail(ProtocolError(str(failure)))
        except BaseException:
            fail(self._interrupted())
            raise

    def read_if_free(self, fail: Fail) -> None:
        """Does nothing while the door is being read, perhaps by this thread: a handler of a log or signal may call this."""
        if self.open and not self._door.being_pumped():
            self.read(fail)

    def _interrupted(self) -> BulkheadError:
        """Ctrl-C came while a packet was read, which may be lost: another stream brings it, through another door."""
        self._door.close()
        return ServiceUnavailable(
            "the stream was interrupted while a batch of it was read", metadata={"target": self._target}
        )

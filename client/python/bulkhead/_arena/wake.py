"""How a thread that waits for a descriptor is woken by others."""

from __future__ import annotations

import os
import select
import threading
import time
from typing import Callable


class Wake:
    """`wait` returns when the descriptor is readable, or when another thread called `wake`.

    One thread waits at a time, and others for their turn; any may wake it.
    """

    def __init__(self, descriptor: int):
        self._waiting = False
        self._turn = threading.Lock()
        self._poller = select.poll()  # select.select() fails for descriptors above 1023
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._poller.register(descriptor, select.POLLIN)
        self._poller.register(self._reading, select.POLLIN)

    def wait(self, seconds: float, done: Callable[[], bool]) -> None:
        """Waits at most that long, and not at all when `done`; others call `wake` when that changes."""
        until = time.monotonic() + seconds
        if not self._turn.acquire(timeout=seconds):
            return
        try:
            self._waiting = True  # before reading `done`, so that a later change wakes this thread
            if not done():
                for descriptor, _ in self._poller.poll(max(until - time.monotonic(), 0) * 1000):
                    if descriptor == self._reading:
                        self._take_in()
            self._waiting = False
        finally:
            self._turn.release()

    def _take_in(self) -> None:
        try:
            os.read(self._reading, 4096)
        except BlockingIOError:  # another thread did
            pass

    def wake(self) -> None:
        if self._waiting:
            try:
                os.write(self._writing, b"x")
            except BlockingIOError:  # full of such calls
                pass

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # `close`: at the program's end `os` may be gone first.
        for name in ("_reading", "_writing"):
            if name in self.__dict__:
                close(self.__dict__[name])

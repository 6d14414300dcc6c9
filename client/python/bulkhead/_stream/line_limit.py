"""A bound on the lines that a service may have written to its trainer's log."""

from __future__ import annotations

import threading
import time
from typing import Callable, Optional

# Twice what a service sends to a stream (docs/user_stages.md), which counts what it leaves out itself.
AT_ONCE = 200
PER_SECOND = 40
# Between two lines that say how many were dropped.
TOLD_SECONDS = 60.0


class LineLimit:
    """`AT_ONCE` lines at once, and `PER_SECOND` after that. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._lock = threading.Lock()
        self._left = float(AT_ONCE)
        self._then = clock()
        self._left_out = 0
        self._told: Optional[float] = None  # when a number of dropped lines was given last

    def admit(self) -> Optional[int]:
        """The number of lines to tell as dropped before this one, 0 within a minute of the last; None: it is dropped, too."""
        with self._lock:
            now = self._clock()
            self._left = min(self._left + (now - self._then) * PER_SECOND, AT_ONCE)
            self._then = now
            if self._left < 1:
                self._left_out += 1
                return None
            self._left -= 1
            if self._left_out == 0 or self._told is not None and now - self._told < TOLD_SECONDS:
                return 0
            self._told = now
            left_out, self._left_out = self._left_out, 0
            return left_out

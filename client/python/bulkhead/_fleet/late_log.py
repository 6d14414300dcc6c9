"""Lines for the log of a thread that holds locks."""

from __future__ import annotations

import collections
import logging
from typing import Deque, Tuple

_log = logging.getLogger("bulkhead")


class LateLog:
    """say, with locks held → tell, without any: logging runs code of the program. Thread-safe."""

    def __init__(self) -> None:
        self._said: Deque[Tuple[int, str]] = collections.deque()

    def say(self, level: int, text: str) -> None:
        """A line for the log."""
        self._said.append((level, text))

    def tell(self) -> None:
        """Logs what was said."""
        while self._said:
            try:
                level, text = self._said.popleft()
            except IndexError:  # another thread was faster
                return
            _log.log(level, "%s", text)

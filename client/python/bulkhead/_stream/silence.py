"""Detects a service that has been silent for too long."""

from __future__ import annotations

import time
from typing import Optional

from ..errors import ServiceUnavailable

# A service sends something every second; one that is silent for this long is lost.
SILENCE_SECONDS = 10.0
TICK_SECONDS = 1.0


class SilenceWatch:
    """Adds up the time in which callers waited and nothing was heard.

    A little at a time is counted, so that a trainer that was itself suspended does not blame its
    service. `heard` is called by whoever reads, and counts roughly; the rest is called under one
    lock, by those who wait.
    """

    def __init__(self, from_the_beginning: bool):
        """`from_the_beginning`: silence counts at once, not only after the first message."""
        self._from_the_beginning = from_the_beginning
        self._started = time.monotonic()
        self._words = 0  # heard, of any kind
        self._words_before = 0  # when `seconds` began to count
        self.seconds = 0.0  # that callers waited since then
        self._supervisor_silent = 0.0

    def heard(self) -> None:
        self._words += 1

    def told(self, supervisor_silent: float) -> None:
        """A heartbeat says for how many seconds the service's supervisor has been silent."""
        self._supervisor_silent = supervisor_silent

    @property
    def supervisor_seconds(self) -> float:
        """What the last heartbeat said, but at most the age of this watch: each stream waits that long."""
        return min(self._supervisor_silent, time.monotonic() - self._started)

    @property
    def listening(self) -> bool:
        """Whether something is expected: the other side is known to be a service, so it must send."""
        return self._words > 0 or self._from_the_beginning

    def begin_wait(self, left: float) -> float:
        """For how long to wait before `waited` is called, at most the `left` seconds."""
        if self._words_before != self._words:
            self._words_before, self.seconds = self._words, 0.0
        return min(TICK_SECONDS, SILENCE_SECONDS / 4, max(left, 0.0))

    def waited(self, seconds: float, moment: float) -> bool:
        """A wait of `moment` seconds took `seconds` and nothing arrived. Returns whether the silence is too long."""
        if not self.listening or self._words_before != self._words:
            return False
        self.seconds += min(seconds, 2 * moment)
        return self.seconds >= SILENCE_SECONDS

    def judge(self, seconds: float, moment: float, target: str) -> Optional[ServiceUnavailable]:
        """As `waited`; the error of a stream whose service, or whose supervisor, has been silent for too long."""
        if self.waited(seconds, moment):
            quiet = self.seconds
            text = (
                f"the service at {target} has said nothing for {quiet:.3g} s, though a "
                "service that lives says something every second"
            )
        elif self.supervisor_seconds >= SILENCE_SECONDS:
            quiet = self.supervisor_seconds
            text = (
                f"the service at {target} says that its supervisor has been silent for "
                f"{quiet:.3g} s"
            )
        else:
            return None
        metadata = {"target": target, "silent_seconds": f"{quiet:.3g}"}
        return ServiceUnavailable(text, "SERVICE_SILENT", metadata)

"""What is said to a program that keeps every slot of shared memory and asks for one more batch."""

from __future__ import annotations

import logging
import time
from typing import Optional

from . import errors

_log = logging.getLogger("bulkhead")

WARNING_SECONDS = 5.0  # of waiting, before the program is warned
LIMIT_SECONDS = 60.0  # and before it is stopped


class ExhaustionWatch:
    """Warns once, then raises, when a call waits because the program keeps all that it may have.

    begin → check … check; one call at a time.
    """

    def __init__(self, target: str):
        self._target = target
        self._since: Optional[float] = None
        self._warned = False

    def begin(self, now: float) -> None:
        """A call begins to wait."""
        self._since = now

    def check(self, held: int, limit: int, until: float) -> None:
        """It still waits; SlotsExhausted at `until` at the latest, if it is the program's doing."""
        now = time.monotonic()
        if held < limit:
            self._since = None
            return
        if self._since is None:
            self._since = now
        waited = now - self._since
        text = (
            f"all {held} batches that this stream may have out at once are still "
            "referenced by your program: let batches go, copy what you keep (array.copy()), or "
            "raise `credits`"
        )
        if waited >= LIMIT_SECONDS or now >= until:
            raise errors.SlotsExhausted(
                f"no batch came within {waited:.3g} s: {text}",
                metadata={"target": self._target, "held": str(held)},
            )
        if waited >= WARNING_SECONDS and not self._warned:
            self._warned = True
            _log.warning("waiting for a slot of shared memory; %s", text)

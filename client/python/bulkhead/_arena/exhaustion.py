"""What happens when a program keeps every slot of shared memory and asks for one more batch."""

from __future__ import annotations

import gc
import logging
import math
import time
from typing import Callable, Iterator, Optional

from .. import errors

_log = logging.getLogger("bulkhead")

WARNING_SECONDS = 5.0  # of waiting, before the program is warned
LIMIT_SECONDS = 60.0  # and before it is stopped
_FIRST_PAUSE = 0.001  # between collections of the youngest objects; each is twice the one before
_LONGEST_PAUSE = 0.064
_ALL_SECONDS = 0.25  # of waiting, before all objects are collected


def _collections() -> Iterator[float]:
    """Runs Python's collector while a call waits for a slot, since arrays that nobody uses may hold slots until then.

    Each step collects what is due, and gives the seconds until more is.

    Those in a reference cycle do. So do JAX's: it drops a finished step's host memory when Python collects.
    The youngest objects are collected at once and then every 1, 2, 4 … 64 ms. All objects are collected after
    0.25 s, and again whenever the wait is twice as long as it was then: at most nine times in 60 s.
    """
    since, pause, all_after = time.monotonic(), _FIRST_PAUSE, _ALL_SECONDS
    while True:
        if time.monotonic() - since < all_after:
            gc.collect(0)
        else:
            gc.collect()
            all_after = 2 * (time.monotonic() - since)
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE)


class ExhaustionWatch:
    """Collects garbage, warns once, then raises, while a call waits because the program keeps all that it may have.

    begin → pause, check … pause, check; one call at a time.
    """

    def __init__(self, target: str):
        self._target = target
        self._since: Optional[float] = None
        self._collections: Optional[Iterator[float]] = None
        self._warned = False

    def begin(self, now: float) -> None:
        """A call begins to wait."""
        self._since = now
        self._collections = None

    def pause(self, held: int, limit: int) -> float:
        """For how many seconds to wait before the next look. May run destructors: no lock may be held."""
        if held < limit:
            self._collections = None
            return math.inf
        if self._collections is None:
            self._collections = _collections()
        return next(self._collections)

    def check(self, held: int, limit: int, until: float, describe: Callable[[], str]) -> None:
        """It still waits; SlotsExhausted at `until` at the latest, if it is the program's doing.

        `describe` names the arrays that it keeps.
        """
        now = time.monotonic()
        if held < limit:
            self._since = None
            return
        if self._since is None:
            self._since = now
        waited = now - self._since
        stop = waited >= LIMIT_SECONDS or now >= until
        if not stop and (self._warned or waited < WARNING_SECONDS):
            return
        kept = describe()
        text = (
            f"all {held} batches that this stream may have out at once are still "
            f"referenced by your program{kept and ': '}{kept}; let batches go, copy what you keep "
            "(array.copy()), or raise `credits`"
        )
        if stop:
            raise errors.SlotsExhausted(
                f"no batch came within {waited:.3g} s: {text}",
                metadata={"target": self._target, "held": str(held)},
            )
        self._warned = True
        _log.warning("waiting for a slot of shared memory; %s", text)

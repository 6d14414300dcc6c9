"""How far the service is with opening a stream."""

from __future__ import annotations

import time
from typing import Any, Optional

from .events import Progress


class Opening:
    """The newest progress, and when there last was some. Guarded by the lock of the stream."""

    def __init__(self) -> None:
        self._started = self._got_on = time.monotonic()
        self.facts: Any = None  # of the newest progress; equal while nothing moves
        self.news: Optional[Progress] = None  # the newest progress, until it is taken

    def note(self, progress) -> None:
        """The service reports its progress."""
        eta = progress.eta.seconds + progress.eta.nanos * 1e-9 if progress.HasField("eta") else None
        facts = (progress.files_done, progress.files_total, progress.records, progress.activity)
        self.news = Progress(*facts[:3], eta, progress.activity)
        if facts != self.facts:
            self.facts, self._got_on = facts, time.monotonic()

    def done(self) -> None:
        """The stream is open."""
        self._got_on = time.monotonic()

    def take(self) -> Optional[Progress]:
        """The newest progress, once; None when it was taken before."""
        news, self.news = self.news, None
        return news

    @property
    def seconds(self) -> float:
        """From the start to the last progress; 0 if there was none."""
        return self._got_on - self._started

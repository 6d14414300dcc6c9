"""What a stream reports beside its batches."""

from __future__ import annotations

import collections
from typing import Deque, Dict, NamedTuple, Optional

_MOST_EVENTS = 1000


class Progress(NamedTuple):
    """What the service does before the first batch."""

    files_done: int
    files_total: int
    records: int
    eta: Optional[float]  # seconds
    activity: str


class Substitution(NamedTuple):
    """A sample that could not be produced and was replaced by another."""

    epoch: int
    position: int
    substitute_position: int
    message: str


class Hang(NamedTuple):
    """A worker made no progress at a sample for so long that the service ended it; another takes over."""

    epoch: int
    position: int
    message: str  # file, offset and stage; for a Python stage, where its function was


class Events:
    """What a loader was told about samples, over all its streams; the newest of each kind."""

    def __init__(self) -> None:
        self.substitutions: Deque[Substitution] = collections.deque(maxlen=_MOST_EVENTS)
        self.quarantined: Dict[str, str] = {}  # message by record
        self.hangs: Deque[Hang] = collections.deque(maxlen=_MOST_EVENTS)

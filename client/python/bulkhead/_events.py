"""What a stream tells beside its batches."""

from __future__ import annotations

from typing import NamedTuple, Optional


class Progress(NamedTuple):
    """What the service does before the first batch."""

    files_done: int
    files_total: int
    records: int
    eta: Optional[float]  # seconds
    activity: str


class Substitution(NamedTuple):
    """A sample that could not be produced and whose place another one took."""

    epoch: int
    position: int
    substitute_position: int
    message: str

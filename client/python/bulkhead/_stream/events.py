"""What a stream reports beside its batches."""

from __future__ import annotations

import collections
import logging
from typing import Deque, Dict, NamedTuple, Optional

from .._rpc import proto

_log = logging.getLogger("bulkhead")

_MOST_EVENTS = 1000


_LEVELS = {
    proto.LEVEL_DEBUG: logging.DEBUG,
    proto.LEVEL_WARNING: logging.WARNING,
    proto.LEVEL_ERROR: logging.ERROR,
}


def log_note(note) -> None:
    """A line of a stage or of the service. No lock may be held: logging runs code of the program."""
    text = f"{note.stage}: {note.text}" if note.stage else note.text
    _log.log(_LEVELS.get(note.level, logging.INFO), "%s", text)


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
    """The events of a loader's samples, over all its streams; keeps the newest of each kind, and logs each."""

    def __init__(self) -> None:
        self.substitutions: Deque[Substitution] = collections.deque(maxlen=_MOST_EVENTS)
        self.quarantined: Dict[str, str] = {}  # message by record
        self.hangs: Deque[Hang] = collections.deque(maxlen=_MOST_EVENTS)

    def note(self, event) -> None:
        """An event of a stream. No lock may be held: logging runs code of the program."""
        if event.kind == proto.KIND_SUBSTITUTED:
            substitution = Substitution(
                event.epoch, event.position, event.substitute_position, event.message
            )
            if substitution in self.substitutions:
                return  # of a batch that is sent again after a lost connection
            self.substitutions.append(substitution)
            _log.warning("epoch %d, position %d: substituted by position %d: %s", *substitution)
        elif event.kind == proto.KIND_QUARANTINED:
            if event.record not in self.quarantined:
                self.quarantined[event.record] = event.message
                _log.warning("quarantined from now on: %s", event.message or event.record)
        elif event.kind == proto.KIND_HUNG:
            hang = Hang(event.epoch, event.position, event.message)
            self.hangs.append(hang)
            _log.warning("epoch %d, position %d: a worker hung and was ended: %s", *hang)

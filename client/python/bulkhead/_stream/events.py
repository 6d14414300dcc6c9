"""What a stream reports beside its batches."""

from __future__ import annotations

import collections
import contextlib
import logging
import sys
from typing import Deque, Dict, NamedTuple, Optional

from .._rpc import proto
from .._words import printable_lines
from .line_limit import LineLimit

_log = logging.getLogger("bulkhead")

_MOST_EVENTS = 1000


_LEVELS = {
    proto.LEVEL_DEBUG: logging.DEBUG,
    proto.LEVEL_WARNING: logging.WARNING,
    proto.LEVEL_ERROR: logging.ERROR,
}


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
        self._limit = LineLimit()

    # No lock may be held in what follows: logging runs code of the program.

    def log_note(self, note) -> None:
        """A line of a stage or of the service, which neither ends the line nor hides a part of it."""
        if not self._admitted():
            return
        level = _LEVELS.get(note.level, logging.INFO)
        text = printable_lines(f"{note.stage}: {note.text}" if note.stage else note.text)
        if level == logging.INFO and _log.level == logging.NOTSET and not _log.hasHandlers():
            # The program has set up no logging, which would hide it; but who prints wants to see it.
            if sys.stderr is None:  # of a daemon or a window; print() would take stdout
                return
            with contextlib.suppress(OSError, ValueError):  # nobody reads it, or it is closed
                print(text, file=sys.stderr)
        else:
            _log.log(level, "%s", text)

    def _admitted(self) -> bool:
        left_out = self._limit.admit()
        if left_out:
            _log.warning("%d lines were left out here", left_out)
        return left_out is not None

    def _say(self, level: int, text: str, *arguments: object) -> None:
        if _log.isEnabledFor(level) and self._admitted():
            _log.log(level, "%s", printable_lines(text % arguments))

    def note(self, event) -> None:
        """An event of a stream."""
        if event.kind == proto.KIND_SUBSTITUTED:
            substitution = Substitution(
                event.epoch, event.position, event.substitute_position, event.message
            )
            if substitution in self.substitutions:
                return  # of a batch that is sent again after a lost connection
            self.substitutions.append(substitution)
            # The service warns of them itself, in a summary that a stream of bad files does not make longer.
            self._say(logging.DEBUG, "epoch %d, position %d: substituted by position %d: %s", *substitution)
        elif event.kind == proto.KIND_QUARANTINED:
            if event.record not in self.quarantined:
                self.quarantined[event.record] = event.message
                self._say(logging.WARNING, "quarantined from now on: %s", event.message or event.record)
        elif event.kind == proto.KIND_HUNG:
            hang = Hang(event.epoch, event.position, event.message)
            self.hangs.append(hang)
            self._say(logging.WARNING, "epoch %d, position %d: a worker hung and was ended: %s", *hang)

"""The cursor of a training when batches are fetched ahead of it."""

from __future__ import annotations

import collections
import threading
from typing import Any, Deque, Dict, Mapping, Optional

from .. import errors
from .._batch.batch import copy_cursor

# No buffer holds as many batches: the callback has stopped reporting.
_MOST_AHEAD = 4096


class Steps:
    """The cursors of batches that were fetched and that no training step has got yet.

    fetched(cursor) … fetched(cursor) → `taken(n)` moves the state n of them on. Thread-safe; no
    call waits for a batch.
    """

    def __init__(self, cursor: Mapping[str, Any]):
        self._lock = threading.Lock()
        self._fetched: Deque[Mapping[str, Any]] = collections.deque()
        self._cursor = cursor
        self._told = False
        # Of the last batch that was fetched without reports; training stands at it, or before it.
        self._untold: Optional[Mapping[str, Any]] = None

    def count(self) -> None:
        """From now on `taken` is called; batches fetched before count as taken."""
        with self._lock:
            self._told = True
            if self._untold is not None:
                self._cursor, self._untold = self._untold, None

    def fetched(self, cursor: Mapping[str, Any]) -> None:
        with self._lock:
            if len(self._fetched) == _MOST_AHEAD:
                self._told = False
                self._fetched.clear()
            if self._told:
                self._fetched.append(cursor)
            else:
                self._untold = cursor

    def taken(self, steps: int) -> None:
        with self._lock:
            for _ in range(min(steps, len(self._fetched))):
                self._cursor = self._fetched.popleft()

    def restart(self, cursor: Mapping[str, Any]) -> None:
        """Drops fetched batches; training is at `cursor`."""
        with self._lock:
            self._fetched.clear()
            self._untold = None
            self._cursor = cursor

    @property
    def dropped(self) -> bool:
        """Whether an iteration that begins now has to go back for batches that no step got."""
        with self._lock:
            return bool(self._fetched)

    @property
    def cursor(self) -> Dict[str, Any]:
        """The state after the last step that was reported."""
        with self._lock:
            return copy_cursor(self._cursor)

    def state(self) -> Dict[str, Any]:
        """`cursor`; InvalidArgument if steps are not reported."""
        with self._lock:
            if self._untold is not None:
                raise errors.InvalidArgument(
                    "it is not known which of the fetched batches were trained on: give fit() the "
                    "callback of `callback()`, or iterate over this object"
                )
            return copy_cursor(self._cursor)

"""Which batches of a stream one replica may send."""

from __future__ import annotations

import threading
from typing import Any, Iterable, Mapping, Set

from .._batch.batch import Layout
from .._batch.order import Expected
from ..errors import ProtocolError


class AssignedOrder(Expected):
    """Those that it was asked for, in whatever order; stands in the place of an Order.

    Numbers are those on the wire. Thread-safe.
    """

    is_complete = False  # nothing more is asked for

    def __init__(self, opened: Any, layout: Layout, world_size: int, cursor: Mapping[str, Any]):
        """`cursor` is that of `opened`."""
        if not opened.assigned:
            raise ProtocolError("the service is of a version that cannot share a stream with other replicas; update it")
        super().__init__(layout, cursor)
        self._lock = threading.Lock()
        self._asked: Set[int] = set()
        self._needed_from = 0
        self._on_the_way: Set[int] = set()  # asked for and not here, also if not needed any more

    def assign(self, batches: Iterable[int], needed_from: int) -> None:
        """They may come, and those below `needed_from` may as well."""
        with self._lock:
            self._needed_from = needed_from
            self._asked = {each for each in self._asked if each >= needed_from}
            batches = list(batches)
            self._asked.update(batches)
            self._on_the_way.update(batches)

    def check(self, header: Any) -> None:
        """Raises ProtocolError unless the batch may come now."""
        with self._lock:
            if header.sequence not in self._asked and header.sequence >= self._needed_from:
                raise ProtocolError(f"the service sent batch {header.sequence}, which it was not asked for")
        self._check_header(header)

    def note(self, header: Any) -> None:
        """Notes that the checked batch came whole."""
        with self._lock:
            self._asked.discard(header.sequence)
            self._on_the_way.discard(header.sequence)

    @property
    def is_at_its_end(self) -> bool:
        """Whether nothing more is asked for, and all has come."""
        return self.is_complete and not self._on_the_way

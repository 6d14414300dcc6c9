"""The batches of a fleet: what the replicas are asked for, what came, and the cursor."""

from __future__ import annotations

import time
from typing import Any, Dict, Iterable, List, Optional, Tuple

import numpy as np

from .. import errors
from .._arena.arena import Arena
from .._batch.batch import Batch, Layout, cursor_to_dict
from .._batch.buffers import aligned_copy
from .._stream.healing import differences
from .cursors import Cursors
from .member import Member
from .striping import Striping


class Assembly:
    """Striping with the batches themselves. Guarded by the fleet's lock."""

    def __init__(self, credits: Any):
        """`credits`: those of the loader."""
        self._credits = credits
        self.striping = Striping(1)  # to others, for questions
        self._batches: Dict[int, Tuple[Any, Dict[str, np.ndarray], Optional[Arena]]] = {}
        self._cursors: Optional[Cursors] = None
        self._opened_by = ""
        self._window = 1
        self.opened: Any = None  # what the first replica said
        self.layout: Optional[Layout] = None
        self.begun = False  # batches are asked for

    @property
    def cursor(self) -> Optional[Dict[str, Any]]:
        """After the last batch that was handed out; None: no replica was open yet."""
        return self._cursors.cursor if self._cursors is not None else None

    @property
    def ready(self) -> int:
        """Batches that came and were not handed out."""
        return len(self._batches)

    def compare(self, member: Member, opened: Any, layout: Layout) -> None:
        """CursorMismatch when the member's stream is another one than that of the replicas before it."""
        if self.opened is None:
            self.opened, self._opened_by, self.layout = opened, member.target, layout
            self._cursors = Cursors(cursor_to_dict(opened.cursor), opened.max_substitutions)
            self.striping.set_total(_total(opened))
        changed = differences(self.opened, opened)
        if changed:
            raise errors.CursorMismatch(
                f"the replica at {member.target} offers another stream than the one at {self._opened_by}; different: "
                f"{', '.join(changed)} (fingerprints of order and bytes {_fingerprints(opened)}, there "
                f"{_fingerprints(self.opened)}); give all replicas the same data, release and code",
                metadata={"target": member.target},
                code="FAILED_PRECONDITION",
            )

    def begin(self, members: List[Member], count: int) -> None:
        """Asks the members for the first batches. `count`: of all replicas."""
        assert self._cursors is not None
        # The caller's cursor is that of all of them.
        self.opened.cursor.quarantined[:] = self._cursors.quarantined
        self.begun = True
        self.resize(count)
        self.join(members)

    def resize(self, count: int) -> None:
        """There are so many replicas now."""
        if self.begun:
            self._window = self._window_of(count)
            self.striping.widen(self._window, time.monotonic())
            self._send()

    def _window_of(self, count: int) -> int:
        """Batches that are asked for or wait for the trainer: `credits`, and two for each replica to work on; as many as `credit_bytes` allows."""
        assert self.layout is not None
        fitting = self._credits.bytes // max(self.layout.batch_bytes, 1)
        return int(min(self._credits.batches + 2 * count, max(fitting, count + 1)))

    def join(self, members: Iterable[Member]) -> None:
        if self.begun:
            self.striping.join(members, time.monotonic())
            self._send()

    def leave(self, member: Member) -> None:
        if self.begun:
            self.striping.leave(member, time.monotonic())
            self._send()

    def arrived(self, member: Member, header: Any, arrays: Dict[str, np.ndarray]) -> bool:
        """Whether the head is here now. CodeChanged when replicas have loaded different code."""
        assert self._cursors is not None
        self._cursors.note_code(header.code, member.target)
        batch = header.sequence + member.base
        if self.striping.arrived(member, batch, time.monotonic()):
            self._batches[batch] = header, arrays, member.arena
            self._make_room(member)
        return self.striping.has_head

    def hand_out(self) -> Batch:
        """The head, which is here. DataError when the epoch has too many substitutions."""
        assert self._cursors is not None and self.layout is not None
        batch = self.striping.head
        header, arrays, arena = self._batches[batch]
        cursor = self._cursors.after(header)
        del self._batches[batch]
        self.striping.take(time.monotonic())
        self._send()
        if self.striping.finished:
            for member in self.striping.members:
                assert isinstance(member, Member)
                if member.stream is not None:
                    member.stream.ask_no_more(max(self.striping.head - member.base, 0))
        if arena is not None and self._is_crowded(arena):
            arrays = _copies(arrays)
        return Batch(arrays, header, batch, cursor, self.layout)

    # In shared memory a batch needs a slot of its replica's arena, until it is handed out and the program drops it. The
    # next batch could be one that finds none: then all would wait for it.

    def _is_crowded(self, arena: Arena) -> bool:
        """Whether the program keeps so many slots that its replica could not make a whole window."""
        waiting = sum(of is arena for _, _, of in self._batches.values())
        return len(arena.held) - waiting + self._window > arena.slot_count - 1

    def _make_room(self, member: Member) -> None:
        """Copies batches that wait in the member's arena, until it has a slot for each that it was asked for."""
        arena = member.arena
        if arena is None:
            return
        missing = self.striping.asked(member) - (arena.slot_count - 1 - len(arena.held))
        for batch in sorted(self._batches, reverse=True):
            header, arrays, of = self._batches[batch]
            if missing <= 0:
                return
            if of is arena:
                self._batches[batch] = header, _copies(arrays), None
                missing -= 1

    def look(self) -> None:
        """Asks others for the batches of a replica that is late."""
        self.striping.tick(time.monotonic())
        self._send()

    def why_late(self, lost_since: Optional[float]) -> str:
        """Who is at the head, for an error; `lost_since`: since when no replica is here."""
        makers = [member for member in self.striping.makers(self.striping.head) if isinstance(member, Member)]
        if not makers:
            return "" if lost_since is None else f": the last replica was lost {time.monotonic() - lost_since:.3g} s ago"
        text = f" from {' and '.join(member.target for member in makers)}"
        activity = next((each.stream.activity for each in makers if each.stream and each.stream.activity), "")
        return f"{text}; activity of the workers: {activity}" if activity else text

    def lacks(self, records: Iterable[str]) -> bool:
        """Whether a replica with these records in quarantine leaves out fewer than the others."""
        assert self._cursors is not None
        return not set(records).issuperset(self._cursors.quarantined)

    def quarantine(self, records: Iterable[str]) -> Optional[List[str]]:
        """All records, when these add some; None when they do not. ResourceExhausted when they are too many."""
        assert self._cursors is not None
        if set(self._cursors.quarantined).issuperset(records):
            return None
        self._cursors.quarantine(records)
        return self._cursors.quarantined

    def redo(self) -> None:
        """What came and was not handed out is made again."""
        if self.begun:
            self._batches.clear()
            self.striping.redo(time.monotonic())
            self._send()

    def _send(self) -> None:
        """Asks for what the striping decided on."""
        for member, batches in self.striping.orders().items():
            assert isinstance(member, Member)
            if member.stream is not None:
                self._make_room(member)
                member.stream.ask([batch - member.base for batch in batches], max(self.striping.head - member.base, 0))


def _copies(arrays: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    return {name: aligned_copy(array) for name, array in arrays.items()}


def _fingerprints(opened: Any) -> str:
    return f"{opened.cursor.order_fingerprint[:8]} {opened.cursor.bytes_fingerprint[:8]}"


def _total(opened: Any) -> Optional[int]:
    """Batches until the end of the last epoch; None: there is no end."""
    if not opened.HasField("epochs"):
        return None
    if opened.cursor.epoch >= opened.epochs:
        return 0
    return int(opened.batches_left_in_epoch + (opened.epochs - opened.cursor.epoch - 1) * opened.batches_per_epoch)

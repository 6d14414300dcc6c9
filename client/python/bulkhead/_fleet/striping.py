"""Which replica makes which batch of one stream."""

from __future__ import annotations

import bisect
import collections
from typing import Deque, Dict, Iterable, List, Optional, Set

from .shares import Replica, Shares

# A batch is late when it takes this many times as long as the slowest of 20 recent ones took, but at least so many seconds.
_LATE_TIMES = 3.0
_LATE_SECONDS = 0.25
_RECENT = 60
_FEWEST_RECENT = 8


class _Member:
    """A replica that makes batches."""

    def __init__(self) -> None:
        self.asked: Set[int] = set()  # batches that it was asked for and that have not come
        self.busy_since = 0.0  # since when it has been at the next one


class Striping:
    """Every batch is made by some replica, and handed out once, in order.

        free ──choose──▶ asked of a replica ──arrived──▶ here ──take, the head only──▶ handed out
         ▲                  │            │
         └─ leave, redo ────┘            └─ late: asked of another one, too; the first copy counts

    Batches are numbered in the order of the stream. Those in the window, which begins at the head,
    have been asked for, whenever there is a replica. So a trainer that takes nothing stops the
    replicas, and a replica that stops delays the head only until others have made its batches.
    `orders` says what to ask of whom; the numbers are ascending. Pure: no clock, no I/O, no threads.
    """

    def __init__(self, window: int, total: Optional[int] = None):
        """`total`: batches of the stream; None: it has no end."""
        self._window = window
        self._total = total
        self.head = 0  # the next batch to hand out
        self._end = 0  # the first batch that was never asked for
        self._free: List[int] = []  # below `_end`, asked of nobody now; ascending
        self._here: Set[int] = set()
        self._members: Dict[Replica, _Member] = {}
        self._shares = Shares()
        self._orders: Dict[Replica, List[int]] = {}
        self._recent: Deque[float] = collections.deque(maxlen=_RECENT)
        self._head_since = 0.0

    @property
    def finished(self) -> bool:
        """Whether all were handed out."""
        return self._total is not None and self.head >= self._total

    @property
    def has_head(self) -> bool:
        return self.head in self._here

    @property
    def members(self) -> List[Replica]:
        return list(self._members)

    def makers(self, batch: int) -> List[Replica]:
        """Who was asked for a batch that has not come."""
        return [replica for replica, member in self._members.items() if batch in member.asked]

    def asked(self, replica: Replica) -> int:
        """How many batches it was asked for that have not come."""
        return len(self._members[replica].asked)

    def shares(self) -> Dict[Replica, float]:
        """The part of the batches that each replica makes."""
        return self._shares.of(self._window)

    def orders(self) -> Dict[Replica, List[int]]:
        """What to ask of whom, once."""
        orders, self._orders = self._orders, {}
        return orders

    def set_total(self, total: Optional[int]) -> None:
        """Before the first replica joins."""
        self._total = total

    def widen(self, window: int, now: float) -> None:
        """Another length of the window, as the replicas become more or fewer."""
        self._window = window
        self._fill(now)

    # Events.

    def join(self, replicas: Iterable[Replica], now: float) -> None:
        """Replicas can make batches from the head on."""
        for replica in replicas:
            self._members[replica] = _Member()
            self._shares.join(replica, now)
        self._fill(now)

    def leave(self, replica: Replica, now: float) -> None:
        """A replica makes no more; others make what it was asked for."""
        member = self._members.pop(replica)
        self._shares.leave(replica)
        self._orders.pop(replica, None)
        self._release(member.asked)
        self._fill(now)

    def arrived(self, replica: Replica, batch: int, now: float) -> bool:
        """A batch came from a replica. False: it is not needed, because it came before."""
        member = self._members[replica]
        seconds = now - member.busy_since
        member.busy_since = now
        self._shares.measured(replica, seconds)
        self._recent.append(seconds)
        member.asked.discard(batch)
        if batch < self.head or batch in self._here:
            return False
        self._here.add(batch)
        for other in self._members.values():
            other.asked.discard(batch)
        return True

    def take(self, now: float) -> int:
        """The head is handed out; it must be here."""
        batch = self.head
        self._here.remove(batch)
        self.head += 1
        self._head_since = now
        self._fill(now)
        return batch

    def redo(self, now: float) -> None:
        """What has come and was not handed out is made again."""
        here, self._here = self._here, set()
        self._release(here)
        self._fill(now)

    def late_at(self) -> Optional[float]:
        """When the head will be late, if it has not come by then; None: there is nothing to be done about it."""
        if self.finished or self.has_head or len(self._recent) < _FEWEST_RECENT:
            return None
        makers = self.makers(self.head)
        if not makers or not self._helpers(makers):
            return None
        times = sorted(self._recent)
        usual = times[int(0.95 * len(times))]
        since = max(self._head_since, *(self._members[each].busy_since for each in makers))
        return since + max(_LATE_TIMES * usual, _LATE_SECONDS)

    def tick(self, now: float) -> None:
        """Asks others for the batches of a replica that keeps the head waiting for too long."""
        late = self.late_at()
        if late is None or now < late:
            return
        for replica in self.makers(self.head):
            member = self._members[replica]
            self._shares.late(replica, now - member.busy_since)
            for batch in sorted(member.asked):
                makers = self.makers(batch)
                helpers = self._helpers(makers)
                if helpers:
                    self._ask(self._quickest(helpers), batch, now)

    # Helpers.

    def _helpers(self, makers: List[Replica]) -> List[Replica]:
        return [each for each in self._members if each not in makers and not self._shares.is_late(each)]

    def _quickest(self, helpers: List[Replica]) -> Replica:
        """Who is likely to have the time first."""

        def wait(replica: Replica) -> float:
            return (len(self._members[replica].asked) + 1) * (self._shares.seconds(replica) or 1e-3)

        return min(helpers, key=wait)

    def _release(self, batches: Set[int]) -> None:
        """Those that nobody else was asked for are free."""
        for batch in batches:
            if not self.makers(batch):
                bisect.insort(self._free, batch)

    def _fill(self, now: float) -> None:
        if not self._members:
            return
        free, self._free = self._free, []
        for batch in free:
            self._ask(self._shares.choose(self._window, now, probe=False), batch, now)
        end = self.head + self._window
        if self._total is not None:
            end = min(end, self._total)
        while self._end < end:
            self._ask(self._shares.choose(self._window, now), self._end, now)
            self._end += 1

    def _ask(self, replica: Replica, batch: int, now: float) -> None:
        member = self._members[replica]
        if not member.asked:
            member.busy_since = now
        member.asked.add(batch)
        bisect.insort(self._orders.setdefault(replica, []), batch)

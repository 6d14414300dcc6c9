"""How many of the batches each replica makes: as many as its measured rate allows."""

from __future__ import annotations

from typing import Dict, Hashable, List, Optional

Replica = Hashable

# Weight of the newest measurement. Workers finish batches in bursts, so a single time says little.
_NEWEST = 0.125
# A replica that is too slow for the window is given a batch after this long, to see whether it still is.
PROBE_SECONDS = 5.0


class _Measured:
    """What is known of one replica."""

    def __init__(self) -> None:
        self.seconds: Optional[float] = None  # for a batch; None: not known yet
        self.warm = False  # the first batch came, which workers had to be started for
        self.probed = False  # the next time is that of the batch it was given to see whether it still is too slow
        self.late = False  # others were given copies of its batches; it has brought none since
        self.owed = 0.0  # batches that were due to it, less those that it was given
        self.given = 0.0  # when it last was


class Shares:
    """Gives each batch to a replica.

    Every replica's count of batches stays within one of its share, which is its part of the rates
    together, also while the rates change (R. Tijdeman, The chairman assignment problem, 1980). A
    replica that could not make a batch while the others make a whole `window` of them gets none,
    but for one now and then that measures it again. Pure: times are passed in.
    """

    def __init__(self) -> None:
        self._known: Dict[Replica, _Measured] = {}

    def join(self, replica: Replica, now: float) -> None:
        """A replica that nothing is known of; it counts as an average one."""
        self._known[replica] = _Measured()
        self._known[replica].given = now
        self._settle()

    def leave(self, replica: Replica) -> None:
        del self._known[replica]
        self._settle()

    def _settle(self) -> None:
        """What was owed among others than these is no longer."""
        for measured in self._known.values():
            measured.owed = 0.0

    def measured(self, replica: Replica, seconds: float) -> None:
        """A batch took it that long, beginning with the batch before or when it was asked for one."""
        known = self._known[replica]
        known.late = False
        if not known.warm:
            known.warm = True
        elif known.seconds is None or known.probed:
            known.seconds = seconds  # of a replica that was away for seconds: an average would keep it away for minutes
            known.probed = False
        else:
            known.seconds += _NEWEST * (seconds - known.seconds)

    def late(self, replica: Replica, seconds: float) -> None:
        """It has made no batch for so long that others make its batches, too."""
        known = self._known[replica]
        known.late = True
        known.seconds = max(known.seconds or 0.0, seconds)

    def is_late(self, replica: Replica) -> bool:
        return self._known[replica].late

    def seconds(self, replica: Replica) -> Optional[float]:
        """For a batch, as far as it is known."""
        return self._known[replica].seconds

    def of(self, window: int) -> Dict[Replica, float]:
        """The share of each replica; they add up to 1."""
        known = [each.seconds for each in self._known.values() if each.seconds]
        usual = sum(known) / len(known) if known else 1.0
        rates = {
            replica: 0.0 if each.late else 1.0 / (each.seconds or usual)
            for replica, each in self._known.items()
        }
        if not any(rates.values()):
            rates = {replica: 1.0 for replica in rates}
        total = sum(rates.values())
        least = min(total / window, max(rates.values())) * (1.0 - 1e-9)
        quick = {each: rate for each, rate in rates.items() if rate >= least}
        total = sum(quick.values())
        return {each: quick.get(each, 0.0) / total for each in rates}

    def choose(self, window: int, now: float, probe: bool = True) -> Replica:
        """Who makes the next batch; not when there is nobody. `probe`: a replica without a share may get it."""
        shares = self.of(window)
        if probe:
            for replica, each in self._known.items():
                if not shares[replica] and not each.late and now - each.given >= PROBE_SECONDS:
                    each.given = now
                    each.probed = True
                    return replica
        for replica, share in shares.items():
            self._known[replica].owed += share
        chosen = self._next([each for each in shares if shares[each]], shares)
        self._known[chosen].owed -= 1.0
        self._known[chosen].given = now
        return chosen

    def _next(self, replicas: List[Replica], shares: Dict[Replica, float]) -> Replica:
        """Of those to whom enough is owed, the one that first must have its batch."""
        slack = 1.0 / max(2 * len(replicas) - 2, 1)
        owed = {replica: self._known[replica].owed for replica in replicas}
        most = max(owed.values())
        due = [each for each in replicas if owed[each] >= min(slack, most) - 1e-9]
        return min(due, key=lambda each: (1.0 - slack - owed[each]) / shares[each])

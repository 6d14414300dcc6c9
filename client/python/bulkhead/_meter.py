"""Rates of a loader between two readings, for what draws training curves."""

from __future__ import annotations

import time
from typing import Any, Dict, Optional

from ._boundary import public
from ._display import facts, html
from ._stats import LoaderStats

_NOTHING_YET = LoaderStats(0, 0, 0, 0.0, 0, 0, 0)


@public
class Meter:
    """Rates of a loader since the last reading, as Weights & Biases, TensorBoard and MLflow take them.

        meter = bulkhead.Meter(loader)
        for step, batch in enumerate(loader):
            train(batch)
            if step % 100 == 99:
                wandb.log(meter.read(), step=step)      # or mlflow.log_metrics, or Lightning's self.log_dict

    `loader` is a Loader, a framework's adapter, or a bulkhead.torch.DataLoader. `rank` is in the names when there are several
    (default: the loader's). Names and units:

        loader/samples_per_second       genuine samples
        loader/wait_share               share of the time that the program waited for batches, 0 to 1
        loader/ready_batches            batches that wait for the program now
        loader/held_slots               slots of shared memory that the program keeps now
        loader/reconnects               lost services since the loader was made

    `repr`, and in a notebook a table, shows what `read` would give, and is no reading.
    """

    def __init__(self, loader: Any, rank: Optional[int] = None):
        self._loader = loader
        self._rank = rank
        self._last, self._of = self._stats(), self._stream()
        self._read_at = time.monotonic()

    def _stream(self) -> int:
        """Another number when an epoch's loader took the place of another."""
        return id(getattr(self._loader, "loader", None))

    def _stats(self) -> LoaderStats:
        return self._loader.stats or _NOTHING_YET  # a DataLoader before its first loop

    def read(self) -> Dict[str, float]:
        """The rates since the last reading, or since the meter was made. Does not block."""
        now, stats, of = time.monotonic(), self._stats(), self._stream()
        rates = self._rates(now, stats, of)
        self._last, self._read_at, self._of = stats, now, of
        return rates

    def _rates(self, now: float, stats: LoaderStats, of: int) -> Dict[str, float]:
        last = self._last
        if of != self._of or stats.samples < last.samples:
            last = _NOTHING_YET
        seconds = max(now - self._read_at, 1e-9)
        rates = {
            "samples_per_second": (stats.samples - last.samples) / seconds,
            "wait_share": min(1.0, max(0.0, (stats.wait_seconds - last.wait_seconds) / seconds)),
            "ready_batches": float(stats.ready_batches),
            "held_slots": float(stats.held_slots),
            "reconnects": float(stats.reconnects),
        }
        return {f"{self.prefix}{name}": value for name, value in rates.items()}

    @property
    def prefix(self) -> str:
        """What the names begin with: "loader/", or "loader/rank3/"."""
        rank = self._rank if self._rank is not None else getattr(self._loader, "rank", None)
        return f"loader/rank{rank}/" if rank else "loader/"

    def _shown(self) -> Dict[str, str]:
        rates = self._rates(time.monotonic(), self._stats(), self._stream())
        return {name: f"{value:.6g}" for name, value in rates.items()}

    def __repr__(self) -> str:
        return facts.line("Meter", self._shown())

    def _repr_html_(self) -> str:
        return html.card("Meter", self._shown())

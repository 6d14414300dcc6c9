"""What a loader did so far, as numbers and as Prometheus's text."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Dict, List, NamedTuple, Set, Tuple

from ._display import amounts, html

if TYPE_CHECKING:
    from ._loader import Loader

# A plain set, which list() copies atomically: another thread may open a loader meanwhile.
_loaders: "Set[weakref.ref[Loader]]" = set()


class LoaderStats(NamedTuple):
    """Counts since the loader was made; reconnects and `load_state_dict` do not reset them."""

    batches: int  # handed out
    samples: int  # genuine ones in them; what pads a last batch is not counted
    bytes: int  # of their arrays
    wait_seconds: float  # that next_batch took, whatever it returned or raised
    reconnects: int  # lost services that the loader went on after
    ready_batches: int  # now: arrived and not handed out
    held_slots: int  # now: slots of shared memory that the program's arrays keep; 0 over gRPC

    def _repr_html_(self) -> str:
        seconds = f"{self.wait_seconds:.3f} s"
        shown = {**self._asdict(), "bytes": amounts.size(self.bytes), "wait_seconds": seconds}
        return html.card("LoaderStats", {name.replace("_", " "): value for name, value in shown.items()})


_METRICS: Tuple[Tuple[str, str, str, str], ...] = (
    ("batches", "batches_total", "counter", "Batches handed out."),
    ("samples", "samples_total", "counter", "Genuine samples handed out."),
    ("bytes", "bytes_total", "counter", "Bytes of the arrays handed out."),
    ("wait_seconds", "wait_seconds_total", "counter", "Time that the trainer waited for batches."),
    ("reconnects", "reconnects_total", "counter", "Lost services that the loader went on after."),
    ("ready_batches", "ready_batches", "gauge", "Batches that arrived and were not handed out."),
    ("held_slots", "held_slots", "gauge", "Slots of shared memory that the program keeps."),
)


def exposition(stats: Dict[Tuple[str, int], LoaderStats]) -> str:
    """Prometheus's text format, version 0.0.4, of stats by name and rank."""
    lines: List[str] = []
    for field, metric, kind, text in _METRICS:
        name = f"bulkhead_client_{metric}"
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        for (loader, rank), values in stats.items():
            label = loader.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
            lines.append(f'{name}{{loader="{label}",rank="{rank}"}} {getattr(values, field)}')
    return "\n".join(lines) + "\n"


def remember(loader: Loader) -> None:
    """`metrics_text` tells its stats while it is open."""
    _loaders.add(weakref.ref(loader, _loaders.discard))


def metrics_text() -> str:
    """`Loader.stats` of this process's open loaders in Prometheus's text format, version 0.0.4.

    The metrics are called bulkhead_client_…; labels are the loader's name and rank.
    """
    alive = [loader for loader in (known() for known in list(_loaders)) if loader is not None]
    return exposition({(loader.name, loader.rank): loader.stats for loader in alive if loader._is_open()})

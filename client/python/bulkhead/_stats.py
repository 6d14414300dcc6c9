"""What a loader did so far, as numbers and as Prometheus's text."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Tuple


class LoaderStats(NamedTuple):
    """Counts since the loader was made; reconnects and `load_state_dict` do not reset them."""

    batches: int  # handed out
    samples: int  # genuine ones in them; what pads a last batch is not counted
    bytes: int  # of their arrays
    wait_seconds: float  # that next_batch took, whatever it returned or raised
    reconnects: int  # lost services that the loader went on after
    ready_batches: int  # now: arrived and not handed out
    held_slots: int  # now: slots of shared memory that the program's arrays keep; 0 over gRPC


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

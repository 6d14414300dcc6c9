"""Which of two consumers of one name is the newer one."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple, Tuple

_lock = threading.Lock()


class Incarnation(NamedTuple):
    """When a consumer was made, in nanoseconds; see Open in loader.proto."""

    wall: int
    machine_boot: bytes  # empty: unknown
    since_boot: int


_last = Incarnation(0, b"", 0)


def _boot() -> Tuple[bytes, int]:
    """This boot of the machine, and the time since.

    A container has those of its host, as long as it has no time namespace of its own
    (docs/semantics.md).
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = bytes.fromhex(file.read().strip().replace("-", ""))
        return boot, time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    except (AttributeError, OSError, ValueError):
        return b"", 0


def next_incarnation() -> Incarnation:
    """By the clocks, so that other processes' come in their order; grows from call to call, also
    when somebody sets the wall clock back."""
    global _last
    boot, since_boot = _boot()
    with _lock:
        wall = max(_last.wall + 1, time.time_ns())
        since_boot = max(_last.since_boot + 1, since_boot) if boot else 0
        _last = Incarnation(wall, boot, since_boot)
        return _last

"""Which of two consumers of one name is the newer one."""

from __future__ import annotations

import threading
import time

_lock = threading.Lock()
_last = 0


def next_incarnation() -> int:
    """The wall clock in nanoseconds, so that other processes' come in their order; grows from call to call, also
    when somebody sets the clock back."""
    global _last
    with _lock:
        _last = max(_last + 1, time.time_ns())
        return _last

"""Calls of gRPC's that an interrupt cannot leave half begun."""

from __future__ import annotations

import threading
from concurrent import futures
from typing import Any, Callable

from ..errors import OutOfThreads


def started(start: Callable[[], Any]) -> Any:
    """What `start` returns, which begins a call; on a thread of its own.

    Python raises KeyboardInterrupt in the main thread alone. Amid gRPC's own steps it would leave a call that nobody
    reads, and closing its channel would wait for that call without end. Raises OutOfThreads.
    """
    begun: "futures.Future[Any]" = futures.Future()

    def run() -> None:
        try:
            begun.set_result(start())
        except BaseException as failure:
            begun.set_exception(failure)

    try:
        threading.Thread(target=run, name="bulkhead-call", daemon=True).start()
    except RuntimeError as failure:
        raise OutOfThreads(f"a call cannot be made: {failure}") from None
    return begun.result()

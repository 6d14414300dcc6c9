"""How the processes of a JAX program exchange short messages."""

from __future__ import annotations

import itertools
import time
from typing import Any, List, Optional

import jax
import numpy as np
from jax.experimental import multihost_utils

# Each process counts its exchanges, so that they meet where all make them in the same order.
_exchanges = itertools.count()
_SLICE_SECONDS = 1.0  # between two of them Ctrl-C comes through


def said_by_all(mine: str, seconds: float) -> List[str]:
    """What each process of `jax.distributed` sends, by number of the process.

    Waits for all of them. RuntimeError when one does not come within `seconds`, or is gone.
    """
    store = _store()
    if store is None:
        return _gathered(mine)
    folder = "bulkhead/exchange"
    number, me = next(_exchanges), jax.process_index()
    key = f"{folder}/{number}/{me}"
    store.key_value_set(key, mine)
    until = time.monotonic() + seconds
    try:
        said = [
            _waited_for(store, f"{folder}/{number}/{process}", process, until)
            for process in range(jax.process_count())
        ]
    except BaseException:
        # A process that comes later waits in vain, as this one did, unless it comes just now.
        store.key_value_delete(key)
        raise
    if number > 0:  # all are here, so that nobody reads what was said before any more
        store.key_value_delete(f"{folder}/{number - 1}/{me}")
    return said


def _store() -> Optional[Any]:
    """The key-value store of the job's coordinator, if this JAX shows it."""
    try:
        from jax._src import distributed  # JAX's own checkpointing library takes it from here, too

        return distributed.global_state.client
    except (ImportError, AttributeError):
        return None


def _waited_for(store: Any, key: str, process: int, until: float) -> str:
    while True:
        left = min(until - time.monotonic(), _SLICE_SECONDS)
        try:
            return str(store.blocking_key_value_get(key, max(int(left * 1000), 1)))
        except RuntimeError as error:
            if not str(error).startswith("DEADLINE_EXCEEDED"):
                raise
        if time.monotonic() >= until:
            raise RuntimeError(f"process {process} did not come")


def _gathered(mine: str) -> List[str]:
    """The same over the devices, where no store is available; it waits as long as they do."""
    words = np.frombuffer(mine.encode(), np.uint8)
    sizes = multihost_utils.process_allgather(np.array([words.size], np.int32)).ravel()
    room = np.zeros(int(sizes.max()), np.uint8)
    room[: words.size] = words
    rows = multihost_utils.process_allgather(room)
    return [rows[row, :size].tobytes().decode() for row, size in enumerate(sizes)]

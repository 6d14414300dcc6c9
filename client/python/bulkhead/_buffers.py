"""Memory of batches, recycled: touching fresh memory costs more than filling it."""

from __future__ import annotations

import threading
from typing import List

import numpy as np

_ALIGNMENT = 64


class _Lease:
    """Lends a block to the arrays that view it; the last of them to go gives the block back."""

    def __init__(self, pool: "BufferPool", block: np.ndarray):
        self._pool = pool
        self._block = block
        address, _ = block.__array_interface__["data"]
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": block.shape,
            "typestr": "|u1",
        }

    def __del__(self) -> None:
        self._pool._give_back(self._block)


class BufferPool:
    """Blocks of one size, 64-byte aligned; keeps at most `max_kept` that nobody uses. Thread-safe."""

    def __init__(self, block_bytes: int, max_kept: int):
        self._block_bytes = max(block_bytes, 1)
        self._max_kept = max_kept
        # Re-entrant: the garbage collector may give a block back while this thread takes one.
        self._lock = threading.RLock()
        self._kept: List[np.ndarray] = []

    def take(self) -> np.ndarray:
        """A block as uint8 array of arbitrary contents. It returns here when no array views it."""
        with self._lock:
            block = self._kept.pop() if self._kept else None
        if block is None:
            raw = np.empty(self._block_bytes + _ALIGNMENT, np.uint8)
            start = -raw.__array_interface__["data"][0] % _ALIGNMENT
            block = raw[start : start + self._block_bytes]
        return np.asarray(_Lease(self, block))

    def _give_back(self, block: np.ndarray) -> None:
        with self._lock:
            if len(self._kept) < self._max_kept:
                self._kept.append(block)

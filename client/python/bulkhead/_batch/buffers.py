"""Memory of batches, recycled: touching fresh memory costs more than filling it."""

from __future__ import annotations

import collections
import mmap
from typing import Deque

import numpy as np

_ALIGNMENT = 64
# From this size on a block is mapped, not taken from malloc: among gRPC's messages, which are as
# large and come and go, blocks that stay keep malloc's memory in pieces, and the process grows for
# long. Smaller ones would waste pages.
_MAPPED_BYTES = 128 << 10


def _new_block(size: int) -> np.ndarray:
    if size >= _MAPPED_BYTES:
        try:
            mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise MemoryError(f"{size} bytes cannot be mapped: {error.strerror}") from error
        return np.frombuffer(mapping, np.uint8)
    raw = np.empty(size + _ALIGNMENT, np.uint8)
    start = -raw.__array_interface__["data"][0] % _ALIGNMENT
    return raw[start : start + size]


def aligned_copy(array: np.ndarray) -> np.ndarray:
    """A copy that is contiguous and aligned as the blocks are."""
    copy: np.ndarray = np.ndarray(array.shape, array.dtype, buffer=_new_block(array.nbytes))
    copy[...] = array
    return copy


class _Lease:
    """Lends a block to the arrays that view it; the last of them to go gives the block back."""

    def __init__(self, kept: "Deque[np.ndarray]", block: np.ndarray):
        self._kept = kept
        self._block = block
        address, _ = block.__array_interface__["data"]
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": block.shape,
            "typestr": "|u1",
        }

    def __del__(self) -> None:
        self._kept.append(self._block)


class BufferPool:
    """Blocks of one size, 64-byte aligned; keeps at most `max_kept` unused ones.

    Thread-safe without a lock, which a destructor must not take and a forked child could inherit
    locked: a deque's own methods are atomic, and a full one drops a block for a new one.
    """

    def __init__(self, block_bytes: int, max_kept: int):
        self._block_bytes = max(block_bytes, 1)
        self._kept: Deque[np.ndarray] = collections.deque(maxlen=max_kept)

    def take(self) -> np.ndarray:
        """A block as uint8 array of arbitrary contents. It returns here when no array views it."""
        try:
            block = self._kept.pop()
        except IndexError:
            block = _new_block(self._block_bytes)
        return np.asarray(_Lease(self._kept, block))

"""Assembles batches from their parts, and checks every part."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional

import numpy as np

from .._rpc.wire import Part
from ..errors import ProtocolError
from .batch import Layout, arrays_in
from .buffers import BufferPool


class Arrived(NamedTuple):
    """A whole batch."""

    header: Any
    arrays: Dict[str, np.ndarray]


class Assembler:
    """A part outside its batch, a gap or an overlap is a ProtocolError.

    `check_header` raises when a header is wrong. No byte of an earlier batch is left in a batch.
    Owned by one thread.
    """

    def __init__(self, layout: Layout, kept_blocks: int, check_header: Callable[[Any], None]):
        self._layout = layout
        self._check_header = check_header
        self._pool = BufferPool(layout.batch_bytes, kept_blocks)
        self._header: Any = None
        self._block: Optional[np.ndarray] = None
        self._memory: Any = None
        self._received = 0
        self._filled: List[int] = []  # for each tensor, where its contiguously filled part ends
        self._ends: List[int] = []

    @property
    def in_batch(self) -> bool:
        return self._header is not None

    def add(self, part: Part) -> Optional[Arrived]:
        """Copies the part's data; returns the batch that it completed, if it did."""
        if part.header is not None:
            self._begin(part.header)
        elif self._header is None:
            raise ProtocolError("the service began a batch without its header")
        begin, end = part.offset, part.offset + len(part.data)
        if end > self._layout.batch_bytes:
            raise ProtocolError("the service sent a part that lies outside its batch")
        self._received += len(part.data)
        if self._received > self._header.payload_bytes:
            raise ProtocolError("the service sent more of a batch than its header announced")
        self._note_filled(begin, end)
        self._memory[begin:end] = part.data
        if self._received < self._header.payload_bytes:
            return None
        return self._finish()

    def _begin(self, header) -> None:
        if self._header is not None:
            raise ProtocolError("the service began a batch before it completed the one before")
        self._check_header(header)
        layout = self._layout
        self._header = header
        self._block = self._pool.take()
        self._memory = memoryview(self._block)
        self._received = 0
        self._filled = list(layout.offsets)
        self._ends = [
            offset + header.sample_count * size
            for offset, size in zip(layout.offsets, layout.sample_bytes)
        ]

    def _note_filled(self, begin: int, end: int) -> None:
        for index, (offset, tensor_end) in enumerate(zip(self._layout.offsets, self._ends)):
            start, stop = max(begin, offset), min(end, tensor_end)
            if start >= stop:
                continue
            if start != self._filled[index]:
                name = self._layout.tensors[index].name
                raise ProtocolError(f"the service left a gap or overlap in '{name}'")
            self._filled[index] = stop

    def _finish(self) -> Arrived:
        header, block = self._header, self._block
        assert block is not None
        for tensor, filled, end in zip(self._layout.tensors, self._filled, self._ends):
            if filled != end:
                raise ProtocolError(f"the service ended a batch without all of '{tensor.name}'")
        self._header = self._block = self._memory = None
        return Arrived(header, arrays_in(block, self._layout, header.sample_count))

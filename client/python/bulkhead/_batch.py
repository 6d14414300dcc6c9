"""Batches, their schema, and the cursor."""

from __future__ import annotations

import copy
import operator
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Tuple

import numpy as np

from . import _proto
from .errors import InvalidArgument, ProtocolError

try:
    import ml_dtypes

    _BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
except ImportError:  # bfloat16 then comes as its bits
    _BFLOAT16 = np.dtype(np.uint16)


class TensorSpec(NamedTuple):
    """One output of a pipeline."""

    name: str
    dtype: np.dtype  # 'S<n>' for byte strings; uint16 for bfloat16 unless ml_dtypes is installed
    shape: Tuple[int, ...]  # of one sample
    dtype_name: str  # as the service calls it: "bfloat16"


class Layout(NamedTuple):
    """A BatchSchema that was checked: every tensor lies inside the batch."""

    tensors: Tuple[TensorSpec, ...]
    offsets: Tuple[int, ...]  # of each tensor in the batch's memory
    sample_bytes: Tuple[int, ...]
    batch_size: int
    batch_bytes: int


def _numpy_dtype(name: str, element_bytes: int) -> np.dtype:
    if name == "bytes" and 0 < element_bytes < 1 << 31:
        return np.dtype(f"S{element_bytes}")
    try:
        dtype = _BFLOAT16 if name == "bfloat16" else np.dtype(name)
    except TypeError:
        dtype = None
    if dtype is None or dtype.itemsize != element_bytes:
        raise ProtocolError(f"the service announced elements of type {name}, {element_bytes} bytes")
    return dtype


def make_layout(schema) -> Layout:
    tensors: List[TensorSpec] = []
    if schema.batch_size < 1:
        raise ProtocolError("the service announced batches without samples")
    for tensor in schema.tensors:
        name = _proto.DTYPE_NAMES.get(tensor.dtype, "unspecified")
        dtype = _numpy_dtype(name, tensor.element_bytes)
        size = tensor.element_bytes
        for dimension in tensor.shape:
            if dimension < 0:
                raise ProtocolError(f"output '{tensor.name}' has no static shape")
            size *= dimension
        end = tensor.batch_offset + schema.batch_size * size
        if size != tensor.sample_bytes or tensor.batch_offset % 64 or end > schema.batch_bytes:
            raise ProtocolError(f"output '{tensor.name}' does not fit its batch")
        tensors.append(TensorSpec(tensor.name, dtype, tuple(tensor.shape), name))
    if len({tensor.name for tensor in tensors}) != len(tensors):
        raise ProtocolError("the service announced two outputs of one name")
    return Layout(
        tuple(tensors),
        tuple(tensor.batch_offset for tensor in schema.tensors),
        tuple(tensor.sample_bytes for tensor in schema.tensors),
        schema.batch_size,
        schema.batch_bytes,
    )


_CURSOR_FIELDS = (
    "version",
    "order_fingerprint",
    "bytes_fingerprint",
    "epoch",
    "consumed",
    "samples_per_epoch",
    "quarantined",
    "substitutions",
)


# Only of a cursor with batches that were delivered out of turn.
UNORDERED_CURSOR_FIELDS = ("completed", "batch_size", "world_size")


def cursor_to_dict(cursor) -> Dict[str, Any]:
    names = _CURSOR_FIELDS + (UNORDERED_CURSOR_FIELDS if cursor.completed else ())
    return copy_cursor({name: getattr(cursor, name) for name in names})


def copy_cursor(values: Mapping[str, Any]) -> Dict[str, Any]:
    copy = {**values, "quarantined": list(values["quarantined"])}
    if "completed" in copy:
        copy["completed"] = list(copy["completed"])
    return copy


def cursor_from_dict(values: Mapping[str, Any]):
    try:
        numbers = {
            name: int(value)
            for name, value in values.items()
            if name not in ("order_fingerprint", "bytes_fingerprint", "quarantined", "completed")
        }
        return _proto.Cursor(**{**values, **numbers})
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidArgument(f"the cursor is not one that a batch gave: {error}") from None


def arrays_in(block: np.ndarray, layout: Layout, sample_count: int) -> Dict[str, np.ndarray]:
    """Views of a batch that lies in `block`; each keeps the block's owner alive."""
    return {
        # np.ndarray rather than view(): it takes zero-sized shapes as well.
        tensor.name: np.ndarray(
            (sample_count, *tensor.shape), tensor.dtype, buffer=block, offset=offset
        )
        for tensor, offset in zip(layout.tensors, layout.offsets)
    }


class Batch(Mapping[str, np.ndarray]):
    """A batch: its arrays by name, as views of one 64-byte-aligned block of memory.

    The arrays are writable and stay valid as long as anything refers to them, also when the loader
    is closed; the memory is reused when nothing does. Over shared memory that block is one of the
    few slots of the stream: copy what is to be kept for long. The first dimension is the sample's;
    `valid_count` samples are genuine, the rest pad the last batch of an epoch (batch.last: pad).

    `sequence` counts the stream's batches in the order of the epoch; with `deterministic: false`
    they may come in another one.
    """

    def __init__(
        self, arrays: Dict[str, np.ndarray], header, sequence: int, cursor: Mapping[str, Any]
    ):
        self._arrays = arrays
        self._cursor = cursor
        self.epoch: int = header.epoch
        self.sequence: int = sequence
        self.sample_count: int = header.sample_count
        self.valid_count: int = header.valid_count
        self.batches_left_in_epoch: int = header.batches_left_in_epoch
        self._first_position: int = header.first_position

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def positions(self) -> range:
        """This rank's positions in the epoch's order."""
        return range(self._first_position, self._first_position + self.valid_count)

    @property
    def last_in_epoch(self) -> bool:
        """Whether the epoch ends with it, on this rank."""
        return self.batches_left_in_epoch == 0

    @property
    def cursor(self) -> Dict[str, Any]:
        """State after this batch, ready for JSON: `Loader.load_state_dict` goes on from there."""
        return copy_cursor(self._cursor)

    def split(self, parts: int) -> List["Batch"]:
        """The batch in at most `parts` pieces of equal size, as Batches that copy nothing.

        Where the samples do not divide evenly the first pieces have one more; no piece is empty,
        so that few samples give fewer pieces. Each has its own positions and valid_count, and keeps
        the memory of the whole batch; its cursor is the whole batch's: the state after the last
        piece. `last_in_epoch` and the like are the whole batch's, too. Only the first piece's
        arrays are aligned to 64 bytes whatever a sample's size.
        """
        parts = operator.index(parts)
        if parts < 1:
            raise InvalidArgument(f"a batch cannot be split into {parts} parts")
        size, larger = divmod(self.sample_count, parts)
        ends = [size * (i + 1) + min(i + 1, larger) for i in range(min(parts, self.sample_count))]
        return [self._rows(begin, end) for begin, end in zip([0, *ends], ends)]

    def _rows(self, begin: int, end: int) -> "Batch":
        part = copy.copy(self)
        part._arrays = {name: array[begin:end] for name, array in self._arrays.items()}
        part.sample_count = end - begin
        part.valid_count = max(min(self.valid_count, end) - begin, 0)
        part._first_position = self._first_position + begin
        return part

    def _rename(self, names: Mapping[str, str]) -> None:
        """Calls its arrays by other names."""
        self._arrays = {names.get(name, name): array for name, array in self._arrays.items()}

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in self.items())
        return f"Batch(epoch={self.epoch}, sequence={self.sequence}, {{{arrays}}})"

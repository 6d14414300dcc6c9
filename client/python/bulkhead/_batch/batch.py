"""Batches, their schema, and the cursor."""

from __future__ import annotations

import copy
import operator
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from .._rpc import proto
from .._boundary import public
from .._display import amounts, html
from .._words import did_you_mean
from ..errors import InvalidArgument, ProtocolError, UnknownOutput
from .buffers import aligned_copy
from .normalization import Normalization
from .schema import TensorSpec

try:
    import ml_dtypes

    _BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
except ImportError:  # bfloat16 then comes as its bits
    _BFLOAT16 = np.dtype(np.uint16)


class Layout(NamedTuple):
    """A BatchSchema that was checked: every tensor lies inside the batch."""

    tensors: Tuple[TensorSpec, ...]
    offsets: Tuple[int, ...]  # of each tensor in the batch's memory
    sample_bytes: Tuple[int, ...]
    batch_size: int
    batch_bytes: int
    # What batches give: the tensors, normalized, and offsets of packed rows.
    outputs: Tuple[TensorSpec, ...]
    ragged: Mapping[str, str]  # by output of packed rows: its offsets
    class_names: Mapping[str, Tuple[str, ...]] = {}  # by label whose classes have names
    normalizations: Mapping[str, Normalization] = {}  # by output that the client normalizes


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


def _packed(spec: TensorSpec, packing: int) -> TensorSpec:
    """The output with the shape of a batch that follows from its packing."""
    shape: List[Optional[int]] = [None, *spec.shape]
    if packing in (0, proto.PACKING_NORMALIZED_BY_CLIENT):
        return spec._replace(batch_shape=tuple(shape))
    if packing == proto.PACKING_ROWS and spec.shape:
        return spec._replace(packing="rows", batch_shape=(None, *spec.shape[1:]))
    first = {proto.PACKING_EXTENTS: 1, proto.PACKING_EXTENTS_CHANNELS_FIRST: 2}.get(packing, 0)
    if not first or len(spec.shape) != 3:
        raise ProtocolError(
            f"output '{spec.name}' is packed in a way that this client does not know: update it"
        )
    shape[first : first + 2] = [None, None]
    return spec._replace(packing="extents", batch_shape=tuple(shape))


def _offsets_of(name: str) -> TensorSpec:
    return TensorSpec(f"{name}_offsets", np.dtype(np.int64), (), "int64", "offsets", (None,))


def _outputs(tensors: List[TensorSpec]) -> Tuple[TensorSpec, ...]:
    """The outputs of batches. Raises if a tensor's packing is unknown."""
    outputs: List[TensorSpec] = []
    told = {tensor.name: tensor for tensor in tensors if tensor.packing == "samples"}
    for tensor in tensors:
        outputs.append(tensor)
        if tensor.packing == "samples":
            continue
        name, shape = _told_by(tensor)
        if name not in told or (told[name].dtype_name, told[name].shape) != ("int64", shape):
            raise ProtocolError(f"output '{tensor.name}' is packed, and no '{name}' says how")
        if tensor.packing == "rows":
            outputs.append(_offsets_of(tensor.name))
    if len({output.name for output in outputs}) != len(outputs):
        raise ProtocolError("the service announced two outputs of one name")
    return tuple(outputs)


def _told_by(tensor: TensorSpec) -> Tuple[str, Tuple[int, ...]]:
    """The name and shape of the output that has a packed tensor's extents."""
    if tensor.packing == "rows":
        return f"{tensor.name}_count", ()
    return f"{tensor.name}_size", (2,)


def _normalized(spec: TensorSpec, message, batch_size: int) -> TensorSpec:
    """The output as batches give it, of one that the client normalizes."""
    name = proto.DTYPE_NAMES.get(message.dtype, "unspecified")
    try:
        if spec.dtype_name != "uint8" or name not in _NORMALIZED_BYTES:
            raise ValueError(f"{name} of {spec.dtype_name}")
        dtype = _numpy_dtype(name, _NORMALIZED_BYTES[name])
        rest = Normalization(message, spec.shape, dtype, name, batch_size)
    except (ValueError, IndexError) as error:
        raise ProtocolError(
            f"output '{spec.name}' is to be normalized in a way that this client does not know "
            f"({error}): update it"
        ) from None
    return TensorSpec(
        spec.name, dtype, rest.shape, name, batch_shape=(None, *rest.shape), normalization=rest
    )


def make_layout(schema) -> Layout:
    tensors: List[TensorSpec] = []
    normalized: Dict[str, TensorSpec] = {}
    if schema.batch_size < 1:
        raise ProtocolError("the service announced batches without samples")
    for tensor in schema.tensors:
        name = proto.DTYPE_NAMES.get(tensor.dtype, "unspecified")
        dtype = _numpy_dtype(name, tensor.element_bytes)
        size = tensor.element_bytes
        for dimension in tensor.shape:
            if dimension < 0:
                raise ProtocolError(f"output '{tensor.name}' has no static shape")
            size *= dimension
        end = tensor.batch_offset + schema.batch_size * size
        if size != tensor.sample_bytes or tensor.batch_offset % 64 or end > schema.batch_bytes:
            raise ProtocolError(f"output '{tensor.name}' does not fit its batch")
        names = tuple(tensor.class_names)
        spec = TensorSpec(tensor.name, dtype, tuple(tensor.shape), name, class_names=names)
        tensors.append(_packed(spec, tensor.packing))
        if tensor.packing == proto.PACKING_NORMALIZED_BY_CLIENT:
            normalized[spec.name] = _normalized(spec, tensor.normalization, schema.batch_size)
    outputs = tuple(normalized.get(spec.name, spec) for spec in _outputs(tensors))
    return Layout(
        tuple(tensors),
        tuple(tensor.batch_offset for tensor in schema.tensors),
        tuple(tensor.sample_bytes for tensor in schema.tensors),
        schema.batch_size,
        schema.batch_bytes,
        outputs,
        {spec.name: f"{spec.name}_offsets" for spec in outputs if spec.packing == "rows"},
        {spec.name: spec.class_names for spec in outputs if spec.class_names},
        {spec.name: spec.normalization for spec in outputs if spec.normalization},
    )


_NORMALIZED_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}

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
_TEXTS = ("order_fingerprint", "bytes_fingerprint")
_NO_NUMBERS = (*_TEXTS, "quarantined", "completed", "code")
_END_OF_NUMBERS = {"version": 1 << 32, "world_size": 1 << 32}
_END_OF_COUNTS = 1 << 63


def cursor_to_dict(cursor) -> Dict[str, Any]:
    names = _CURSOR_FIELDS + (UNORDERED_CURSOR_FIELDS if cursor.completed else ())
    values = {name: getattr(cursor, name) for name in names}
    if cursor.code:  # only of a pipeline with user code
        values["code"] = with_code((), cursor.code)
    return copy_cursor(values)


def with_code(known: Iterable[Mapping[str, Any]], files) -> List[Dict[str, Any]]:
    """A cursor's code, with CodeFiles that were loaded since; each once, sorted by name."""
    code = {file["name"]: dict(file) for file in known}
    for file in files:
        code[file.name] = {"name": file.name, "digest": file.digest}
        if file.later:
            code[file.name]["later"] = True
    return [code[name] for name in sorted(code)]


def copy_cursor(values: Mapping[str, Any]) -> Dict[str, Any]:
    copy = {**values, "quarantined": list(values["quarantined"])}
    if "completed" in copy:
        copy["completed"] = list(copy["completed"])
    if "code" in copy:
        copy["code"] = [dict(file) for file in copy["code"]]
    return copy


def _number(name: str, value: Any) -> int:
    try:
        number = int(value)
        whole = not isinstance(value, bool) and (isinstance(value, str) or number == value)
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise TypeError(f"`{name}` is a whole number, not {value!r:.40}")
    end = _END_OF_NUMBERS.get(name, _END_OF_COUNTS)
    if not 0 <= number < end:
        raise ValueError(f"`{name}` lies between 0 and {end - 1}, and is {number}")
    return number


def cursor_from_dict(values: Mapping[str, Any]):
    """InvalidArgument for what no `state_dict` gave."""
    try:
        if not isinstance(values, Mapping):
            raise TypeError(f"it is {values!r:.40}, not the dict that state_dict() gave")
        numbers = {
            name: _number(name, value)
            for name, value in values.items()
            if name not in _NO_NUMBERS
        }
        for name in _TEXTS:
            if not isinstance(values.get(name, ""), str):
                raise TypeError(f"`{name}` is a text, not {values[name]!r:.40}")
        records = values.get("quarantined", ())
        if isinstance(records, (str, bytes)) or not all(isinstance(record, str) for record in records):
            raise TypeError(f"`quarantined` is a list of records' names, not {records!r:.40}")
        return proto.Cursor(**{**values, **numbers})
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidArgument(f"the cursor is not one that a batch gave: {error}") from None


def arrays_in(memory: Any, layout: Layout, sample_count: int) -> Dict[str, np.ndarray]:
    """Views of a batch that lies in `memory`, an array or something with NumPy's array interface.

    Each keeps `memory`; in the latter case by a root of its own, which its views have in common.

    Raises ProtocolError when the batch says that packed samples lie outside their tensor.
    """
    places = {tensor.name: offset for tensor, offset in zip(layout.tensors, layout.offsets)}

    def view(name: str, shape: Tuple[int, ...], dtype: Any) -> np.ndarray:
        # np.ndarray rather than view(): it takes zero-sized shapes as well.
        return np.ndarray(shape, dtype, buffer=np.asarray(memory), offset=places[name])

    arrays: Dict[str, np.ndarray] = {}
    for tensor in layout.tensors:
        shape = (sample_count, *tensor.shape)
        if tensor.packing != "samples":
            name, told_shape = _told_by(tensor)
            # A copy, so that processes that share the memory cannot change it between check and use.
            told = view(name, (sample_count, *told_shape), np.int64).copy()
            if tensor.packing == "rows":
                offsets = _row_offsets(tensor, told)
                shape = (int(offsets[-1]), *tensor.shape[1:])
                arrays[tensor.name] = view(tensor.name, shape, tensor.dtype)
                arrays[layout.ragged[tensor.name]] = offsets
                continue
            shape = (sample_count, *_own_extents(tensor, told[0].tolist()))
        arrays[tensor.name] = view(tensor.name, shape, tensor.dtype)
    return arrays


def _row_offsets(tensor: TensorSpec, counts: np.ndarray) -> np.ndarray:
    most = tensor.shape[0]
    wrong = (counts < 0) | (counts > most)
    if wrong.any():
        sample = int(wrong.argmax())
        raise ProtocolError(
            f"sample {sample} has {counts[sample]} rows of '{tensor.name}', of which there are 0 "
            f"to {most}"
        )
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _own_extents(tensor: TensorSpec, size: List[int]) -> Tuple[int, ...]:
    """The shape of a sample in a batch of images of `size`."""
    extents = list(tensor.shape)
    first = tensor.batch_shape.index(None, 1) - 1  # of height and width
    bounds = extents[first : first + 2]
    if not all(1 <= extent <= bound for extent, bound in zip(size, bounds)):
        raise ProtocolError(
            f"'{tensor.name}' has {size[0]} x {size[1]} pixels, at most {bounds[0]} x {bounds[1]} "
            "are possible"
        )
    extents[first : first + 2] = size
    return tuple(extents)


@public
class Batch(Mapping[str, np.ndarray]):
    """A batch: its arrays by name, as 64-byte-aligned views of one block of memory.

    The arrays are writable and stay valid as long as anything refers to them, also after the
    loader is closed; then the memory is reused. Over shared memory that block is one of the few
    slots of the stream: copy what you keep for long. The first dimension is the sample's;
    `valid_count` samples are genuine, the rest pad the last batch of an epoch (batch.last: pad).
    For an output that `pack_rows` packed the first dimension is the row's, and `<name>_offsets`
    assigns rows to samples: sample i has rows offsets[i] to offsets[i + 1].

    Arrays smaller than the loader's `copy_below` (64 KiB) are copies, which keep nothing else
    alive. An output that the trainer normalizes (`normalize: {at: trainer}`) is computed by NumPy
    when it is first read, in memory of its own.

    `sequence` counts the stream's batches in the order of the epoch; with `deterministic: false`
    they may arrive in another order.

    `class_names` has, for each label whose classes have names, the names in the order of their
    numbers: `batch.class_names["label"][batch["label"][0]]`.
    """

    def __init__(
        self,
        arrays: Dict[str, np.ndarray],
        header,
        sequence: int,
        cursor: Mapping[str, Any],
        layout: Layout,
    ):
        self._arrays = arrays
        self._unnormalized = dict(layout.normalizations)  # by array that is still as it travelled
        self.class_names: Mapping[str, Tuple[str, ...]] = layout.class_names or {}
        self._ragged = layout.ragged or {}  # by array of packed rows: its offsets
        self._cursor = cursor
        self.epoch: int = header.epoch
        self.sequence: int = sequence
        self.sample_count: int = header.sample_count
        self.valid_count: int = header.valid_count
        self.batches_left_in_epoch: int = header.batches_left_in_epoch
        self._first_position: int = header.first_position

    def __getitem__(self, name: str) -> np.ndarray:
        array = self._sent(name)
        rest = self._unnormalized.get(name)
        if rest is not None:
            array = self._arrays[name] = rest.of(array)
            self._unnormalized.pop(name, None)
        return array

    def _sent(self, name: str) -> np.ndarray:
        """The array as it travelled; what is still to be done to it says its output's `normalization`."""
        try:
            return self._arrays[name]
        except KeyError:
            told = f"the batch has no output {name!r}{did_you_mean(str(name), self._arrays)}"
            raise UnknownOutput(told) from None

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

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
        """The state after this batch, JSON-serializable: `Loader.load_state_dict` continues there."""
        return copy_cursor(self._cursor)

    def split(self, parts: int) -> List["Batch"]:
        """The batch in at most `parts` pieces of equal size, as Batches that copy nothing.

        If the samples do not divide evenly, the first pieces have one more; no piece is empty, so
        few samples give fewer pieces. Each has its own positions and valid_count, its own offsets
        of packed rows, from 0, and keeps the memory of the whole batch. Its cursor is that of the
        whole batch, the state after the last piece, and so are `last_in_epoch` and the like. Only
        the first piece's arrays are aligned to 64 bytes for every sample size.
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
        part._unnormalized = dict(self._unnormalized)
        for name, offsets_name in self._ragged.items():
            offsets = self._arrays[offsets_name][begin : end + 1]
            part._arrays[name] = self._arrays[name][offsets[0] : offsets[-1]]
            part._arrays[offsets_name] = offsets - offsets[0]
        part.sample_count = end - begin
        part.valid_count = max(min(self.valid_count, end) - begin, 0)
        part._first_position = self._first_position + begin
        return part

    def _rename(self, names: Mapping[str, str]) -> None:
        """Calls its arrays by other names."""
        self._arrays = {names.get(name, name): array for name, array in self._arrays.items()}
        self._ragged = {
            names.get(name, name): names.get(offsets, offsets)
            for name, offsets in self._ragged.items()
        }
        self.class_names = {names.get(name, name): known for name, known in self.class_names.items()}
        self._unnormalized = {names.get(name, name): rest for name, rest in self._unnormalized.items()}

    def _copy_small(self, copy_below: int) -> None:
        """Gives arrays of fewer bytes memory of their own, so that they do not keep the whole batch's."""
        for name, array in self._arrays.items():
            if array.nbytes < copy_below and array.base is not None:
                self._arrays[name] = aligned_copy(array)

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in self.items())
        facts = ", ".join(f"{name}={value}" for name, value in self._facts().items())
        return f"Batch({facts}, {{{arrays}}})"

    def _repr_html_(self) -> str:
        rows = (
            (
                name,
                array.dtype,
                list(array.shape),
                *amounts.span(array),
                amounts.classes(self.class_names.get(name, ())),
            )
            for name, array in self.items()
        )
        head = ("output", "dtype", "shape", "min", "max", "classes")
        return html.card("Batch", self._facts(), html.table(head, rows))

    def _facts(self) -> Dict[str, int]:
        facts = {"epoch": self.epoch, "sequence": self.sequence, "samples": self.sample_count}
        return facts if self.valid_count == self.sample_count else {**facts, "genuine": self.valid_count}

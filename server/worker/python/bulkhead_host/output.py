"""One declared output of a stage."""

from __future__ import annotations

import ctypes
import types

from bulkhead_host.memory import MAX_CACHED, WRITE, view_of_memory
from bulkhead_host.verdict import OVER_BOUND, WRONG_SHAPE, Refusal

# Types that NumPy lacks, or has under no name that each of its versions knows.
_WRITTEN = {"bfloat16": "ml_dtypes.bfloat16", "bool": "bool"}


class Output:
    """One declared output: checks what the function returned and copies it to its place."""

    def __init__(self, numpy, declared: dict):
        self.name = declared["name"]
        self.dtype_name = declared["dtype"][len("DTYPE_"):].lower()
        self.is_bytes = self.dtype_name == "bytes"
        shape = tuple(int(extent) for extent in declared.get("shape", ()))
        self.max_count = int(declared.get("max_count", 0))
        self.variable = bool(shape) and shape[0] == -1
        # A batch has exactly as many rows as the call says.
        self.of_batch = self.variable and self.max_count == 0
        self.rest = shape[1:]
        self.shape = (self.max_count, *self.rest) if self.variable else shape
        # NumPy has no bfloat16, so its bits are passed as uint16.
        is_bfloat = self.dtype_name == "bfloat16"
        self.dtype = None if self.is_bytes else numpy.dtype("uint16" if is_bfloat else self.dtype_name)
        self._numpy = numpy
        self._places: dict[tuple, object] = {}  # arrays by address and shape

    def declared(self) -> str:
        if self.of_batch:
            return f"{self.dtype_name} [{', '.join(map(str, self.shape))}] for this batch"
        extents = ["-1", *map(str, self.rest)] if self.variable else map(str, self.shape)
        return f"{self.dtype_name} [{', '.join(extents)}]"

    def store(self, value, address: int, rows: int) -> int:
        """Returns the extent of the variable dimension; `rows` counts for batches."""
        if self.is_bytes:
            return self._store_bytes(value, address)
        if self.of_batch:
            self.shape = (rows, *self.rest)
        returned = value
        if type(value) is not self._numpy.ndarray:
            value = self.as_array(value)
        if value.dtype != self.dtype:
            value = self._same_bits(value, returned)
        place = self._places.get((address, self.shape))
        if place is None:
            place = self._place(address)
        if value.shape == self.shape:
            place[...] = value
            return rows if self.of_batch else self.max_count
        if self.of_batch or not self.variable or value.ndim == 0 or value.shape[1:] != self.rest:
            raise Refusal(
                f"output `{self.name}` has the shape {list(value.shape)}, but is declared as {self.declared()}; "
                "return that shape, or correct the spec",
                WRONG_SHAPE,
            )
        count = value.shape[0]
        self._check_bound(count, "rows")
        place[:count] = value
        return count

    def _check_bound(self, count: int, what: str) -> None:
        if count > self.max_count:
            raise Refusal(f"output `{self.name}` has {count} {what}, more than its max_count, {self.max_count}", OVER_BOUND)

    def as_array(self, value):
        numpy = self._numpy
        if value is None:
            raise Refusal(f"output `{self.name}` is None: does the function return it?")
        if isinstance(value, types.GeneratorType):
            raise Refusal(f"output `{self.name}` is a generator: the function has to return it, not to yield")
        is_number = isinstance(value, (bool, int, float)) or (isinstance(value, complex) and self.dtype.kind == "c")
        if is_number and self.shape == ():
            # A Python number has no NumPy type. It takes the declared one, if it fits.
            try:
                made = numpy.array(value, dtype=self.dtype)
            except OverflowError:
                made = None
            if made is not None and (self.dtype.kind in "fc" or made == value):
                return made
            raise Refusal(f"output `{self.name}` is {value!r}, which is not a {self.dtype_name}", WRONG_SHAPE)
        try:
            return numpy.asarray(value)
        except MemoryError:
            raise
        except Exception as error:
            raise Refusal(
                f"output `{self.name}` is a {type(value).__name__}, which NumPy cannot convert to an array: {error}"
            ) from None

    def _same_bits(self, value, returned):
        if self.dtype_name == "bfloat16" and value.dtype.name == "bfloat16":
            return value.view(self.dtype)
        wanted = _WRITTEN.get(self.dtype_name, f"numpy.{self.dtype_name}")
        if hasattr(returned, "astype"):
            found, how = f"has the dtype {value.dtype}", f".astype({wanted})"
        else:  # a list or a tensor
            found, how = f"is a {type(returned).__name__} of {value.dtype}", f"numpy.asarray(…, {wanted})"
        raise Refusal(
            f"output `{self.name}` {found}, but is declared as {self.dtype_name}; convert it ({how}) or correct the spec",
        )

    def _place(self, address: int):
        if len(self._places) >= MAX_CACHED:
            self._places.clear()
        size = self.dtype.itemsize
        for extent in self.shape:
            size *= extent
        view = view_of_memory(address, size, WRITE)
        place = self._places[address, self.shape] = self._numpy.ndarray(self.shape, self.dtype, view)
        return place

    def _store_bytes(self, value, address: int) -> int:
        if not isinstance(value, (bytes, bytearray)):
            raise Refusal(f"output `{self.name}` is a {type(value).__name__}, but is declared as bytes")
        self._check_bound(len(value), "bytes")
        ctypes.memmove(address, bytes(value), len(value))
        return len(value)

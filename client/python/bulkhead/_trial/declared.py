"""What a function returned here against what its stage declares, where no worker made anything."""

from __future__ import annotations

import types
from typing import Any, List

import numpy as np

from .._rpc import proto

# Types that NumPy lacks, or has under no name that each of its versions knows.
_WRITTEN = {"bfloat16": "ml_dtypes.bfloat16", "bool": "'bool'"}


def wrong(python: Any, here: List[Any]) -> List[str]:
    """For people, with what to write; `here`: a value for each output of the stage `python`."""
    outputs = list(python.outputs)
    if len(here) != len(outputs):
        return [f"{len(here)} values here, but {len(outputs)} are declared"]
    return [text for text in map(_wrong, outputs, here) if text]


def _wrong(output: Any, value: Any) -> str:
    wanted = proto.DTYPE_NAMES.get(output.dtype, "")
    if value is None:
        return f"{output.name}: None here; does the function return it?"
    if isinstance(value, types.GeneratorType):
        return f"{output.name}: a generator here; the function has to return it, not to yield"
    if isinstance(value, (types.CoroutineType, types.AsyncGeneratorType)):
        return f"{output.name}: a coroutine here; an `async def` function cannot be a stage: write `def`"
    if wanted == "bytes" or isinstance(value, (bytes, bytearray)):
        same = wanted == "bytes" and isinstance(value, (bytes, bytearray))
        return "" if same else f"{output.name}: a {type(value).__name__} here, declared as {wanted}"
    if isinstance(value, (bool, int, float, complex)):
        return ""  # it takes the declared type
    try:
        found = np.asarray(value).dtype.name
    except ValueError:
        return f"{output.name}: arrays of different shapes here; one output is one array"
    if found == wanted or (wanted, found) == ("bfloat16", "uint16"):
        return ""
    dtype = _WRITTEN.get(wanted, f"numpy.{wanted}")
    # Lists and tensors have no astype.
    how = f".astype({dtype})" if hasattr(value, "astype") else f"numpy.asarray(…, {dtype})"
    text = f"{output.name}: dtype {found} here, declared as {wanted}; return it with {how}"
    return f"{text}, or declare dtype: {found}" if found in proto.DTYPE_NAMES.values() else text

"""Types of NumPy and Python where a spec has the name of an element type."""

from __future__ import annotations

from typing import Any

import numpy as np

_OF_PYTHON = {bool: "bool", bytes: "bytes"}
_ADVICE = {float: 'write "float32", or "float64", which Python\'s float is', int: 'write "int64"'}


def name_of(value: Any) -> str:
    """"float32" of np.float32 and np.dtype("float32"); empty for what is no such type, or leaves the size open."""
    if isinstance(value, np.dtype):
        return str(value.name)
    if not isinstance(value, type):
        return ""
    is_numpys = issubclass(value, np.generic) and not value.__subclasses__()  # np.floating has some
    return np.dtype(value).name if is_numpys else _OF_PYTHON.get(value, "")


def advice(value: Any) -> str:
    """For a type that leaves the size open; empty for all else."""
    return _ADVICE.get(value, "") if isinstance(value, type) else ""

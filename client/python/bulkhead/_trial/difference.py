"""Where what a function made here differs from what a worker made."""

from __future__ import annotations

from typing import Any, List

import numpy as np


def normal(value: Any, like: Any) -> Any:
    """What a function returned, in the form in which a worker hands it on; `like`: a worker's.

    A Python number takes the declared type, as in a worker.
    """
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, (bool, int, float, complex)) and np.shape(like) == ():
        try:
            return np.array(value, dtype=np.asarray(like).dtype)
        except OverflowError:
            return np.asarray(value)
    array = np.asarray(value)
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def of_values(here: Any, there: Any) -> str:
    """For people; empty: the same bytes."""
    if isinstance(there, bytes) or isinstance(here, bytes):
        if not (isinstance(there, bytes) and isinstance(here, bytes)):
            return f"{_kind(here)} here, {_kind(there)} in the worker"
        here, there = np.frombuffer(here, np.uint8), np.frombuffer(there, np.uint8)
        if here.size != there.size:
            return f"{here.size} bytes here, {there.size} in the worker"
    here, there = np.asarray(here), np.asarray(there)
    if here.dtype != there.dtype:
        return f"dtype {here.dtype} here, {there.dtype} in the worker"
    if here.shape != there.shape:
        return f"shape {list(here.shape)} here, {list(there.shape)} in the worker"
    return _of_bytes(here, there)


def _of_bytes(here: np.ndarray, there: np.ndarray) -> str:
    size = here.dtype.itemsize
    bits = [np.ascontiguousarray(array).reshape(-1).view(f"V{size}") for array in (here, there)]
    places = np.flatnonzero(bits[0] != bits[1])
    if places.size == 0:
        return ""
    first = np.unravel_index(places[0], here.shape)
    at = f"[{', '.join(map(str, first))}]" if here.shape else "the value"
    text = f"{places.size} of {here.size} elements differ, the first at {at}: "
    text += f"{here[first]} here, {there[first]} in the worker"
    if here.dtype.kind in "iuf" and here.size > 1:
        apart = np.abs(here.astype(np.float64) - there.astype(np.float64))
        text += f"; at most {np.nanmax(apart):.6g} apart"
    return text


def _kind(value: Any) -> str:
    return "bytes" if isinstance(value, bytes) else f"{np.asarray(value).dtype} numbers"


def of_calls(names: List[str], first: List[Any], second: List[Any]) -> List[str]:
    """Whether two calls with the same sample returned other values, by name of the outputs."""
    return [
        f"{name}: another value when it is called a second time with the same sample: the function keeps something "
        "from one call to the next, which differs from worker to worker"
        for name, before, after in zip(names, first, second)
        if of_values(*map(_frozen, (before, after)))
    ]


def _frozen(value: Any) -> Any:
    try:
        frozen = bytes(value) if isinstance(value, (bytes, bytearray)) else np.asarray(value)
    except ValueError:  # no array, which is told otherwise, as is one of objects
        return b""
    return b"" if isinstance(frozen, np.ndarray) and frozen.dtype.hasobject else frozen


def of_outputs(names: List[str], here: List[Any], there: List[Any]) -> List[str]:
    """The same for all outputs of a sample, each with its name."""
    if len(here) != len(there):
        return [f"{len(here)} values here, but {len(there)} are declared ({', '.join(names)})"]
    found = [of_values(normal(mine, yours), yours) for mine, yours in zip(here, there)]
    return [f"{name}: {text}" for name, text in zip(names, found) if text]

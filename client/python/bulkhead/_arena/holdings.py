"""Which arrays of batches in shared memory a program keeps, and where it took them."""

from __future__ import annotations

import os
import sys
import weakref
from types import FrameType
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from .arena import Arena, lease_of

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MOST_NAMED = 4  # kinds of arrays in one description


class _Array(NamedTuple):
    name: str
    dtype: np.dtype
    shape: Tuple[int, ...]
    root: "weakref.ref[np.ndarray]"  # which every view of the array keeps


class Given(NamedTuple):
    """The arrays of a slot that the program got."""

    sequence: int
    line: Tuple[str, int]  # file and number
    arrays: List[_Array]


def note(arrays: Mapping[str, np.ndarray], sequence: int) -> None:
    """The batch goes to the program; those of its arrays that lie in a slot are remembered, weakly."""
    found: List[_Array] = []
    lease = None
    for name, array in arrays.items():
        root, owner = lease_of(array)
        if owner is not None:
            lease = owner
            found.append(_Array(name, array.dtype, array.shape, weakref.ref(root)))
    if lease is not None:
        lease.arena.given[lease.slot] = Given(sequence, _line_of_program(), found)


def _line_of_program() -> Tuple[str, int]:
    """The place of the innermost call outside this package and, if there is one, outside installed packages."""
    frame: Optional[FrameType] = sys._getframe(1)
    installed = ("", 0)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE):
            if "-packages" + os.sep not in file:
                return file, frame.f_lineno
            installed = installed if installed[1] else (file, frame.f_lineno)
        frame = frame.f_back
    return installed


def describe(arena: Arena) -> str:
    """Such as "image float32[64, 224, 224, 3] of batches 0, 1 and 2, taken at train.py:17"; "" for none."""
    kept: Dict[Tuple[str, str], List[int]] = {}  # batches, by array and line
    for slot in arena.held.copy():
        given = arena.given.get(slot)
        if given is None:
            continue
        file, number = given.line
        for name, dtype, shape, root in given.arrays:
            if root() is not None:
                kind = (f"{name} {dtype}{list(shape)}", f"{file}:{number}")
                kept.setdefault(kind, []).append(given.sequence)
    texts = [
        f"{array} of {_batches(sorted(numbers))}, taken at {line}"
        for (array, line), numbers in kept.items()
    ]
    more = len(texts) - _MOST_NAMED
    if more > 0:
        texts[_MOST_NAMED:] = [f"and {more} more"]
    return "; ".join(texts)


def _batches(numbers: List[int]) -> str:
    if len(numbers) == 1:
        return f"batch {numbers[0]}"
    return f"batches {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"

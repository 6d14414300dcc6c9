"""Numbers, shapes and names for people."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import numpy as np

_MOST_CLASSES = 8
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size(count: float) -> str:
    """ "1.5 GiB"."""
    unit = 0
    while count >= 1024 and unit + 1 < len(_UNITS):
        count /= 1024
        unit += 1
    return f"{count:.4g} {_UNITS[unit]}"


def shape(extents: Sequence[Optional[int]]) -> str:
    """ "[64, ?, 3]"; ? is what varies."""
    return f"[{', '.join('?' if extent is None else str(extent) for extent in extents)}]"


def classes(names: Sequence[str]) -> str:
    """ "3: ant, bee, cat"; empty: their names are not known."""
    if not names:
        return ""
    more = ", …" if len(names) > _MOST_CLASSES else ""
    return f"{len(names)}: {', '.join(names[:_MOST_CLASSES])}{more}"


def span(array: np.ndarray) -> Tuple[str, str]:
    """The least and the largest value; empty where there is none."""
    if array.size == 0 or array.dtype.kind not in "biuf":
        return "", ""
    return _number(array.min()), _number(array.max())


def _number(value: Any) -> str:
    return f"{value:.6g}" if np.asarray(value).dtype.kind == "f" else str(value)

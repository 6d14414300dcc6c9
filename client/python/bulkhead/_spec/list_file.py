"""Paths and labels of Python as lines of an image list, and the file of a long one."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from typing import Any, List, Optional, Sequence, Tuple

from ..errors import InvalidArgument

# Up to here the lines stand in the spec itself, whose text may have 1 MiB.
_MAX_INLINE_LINES = 2000
_MAX_INLINE_CHARACTERS = 64 << 10
_SPACE = " \t\n\v\f\r"


class ListFile:
    """A file of these lines in a private folder: written at first use, removed with the object.

    A forked child leaves its parent's file alone. Thread-safe.
    """

    NAME = "list.tsv"  # always: names of files, below the spec's folder, are part of a cursor

    def __init__(self, text: str):
        self.text = text
        self._folder: Optional[str] = None
        self._writing = threading.Lock()

    @property
    def folder(self) -> str:
        with self._writing:
            if self._folder is None:
                folder = tempfile.mkdtemp(prefix="bulkhead-list-")  # mode 0700
                weakref.finalize(self, _remove, folder, os.getpid())
                path = os.path.join(folder, self.NAME)
                with open(path, "w", encoding="utf-8", newline="\n") as file:
                    file.write(self.text)
                self._folder = os.path.realpath(folder)
            return self._folder


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


class Rows:
    """Checked rows of a list."""

    def __init__(self, paths: Any, labels: Any, image_count: int, label_count: int):
        path_rows = [_as_row(item, image_count, "paths", i) for i, item in enumerate(_plain(paths))]
        label_rows: List[Tuple[Any, ...]] = [()] * len(path_rows)
        if labels is not None:
            label_rows = [
                _as_row(item, label_count, "labels", i) for i, item in enumerate(_plain(labels))
            ]
        if not path_rows:
            raise InvalidArgument("there are no paths; a list needs at least one sample")
        if len(label_rows) != len(path_rows):
            raise InvalidArgument(
                f"there are {len(path_rows)} paths and {len(label_rows)} labels; they go by pairs"
            )
        self._paths = [tuple(_path(path, i) for path in row) for i, row in enumerate(path_rows)]
        values = [tuple(_label(value, i) for value in row) for i, row in enumerate(label_rows)]
        self.float_labels = any(isinstance(value, float) for row in values for value in row)
        self._labels = ["".join(f"\t{value}" for value in row) for row in values]
        names = sorted({value for row in values for value in row if isinstance(value, str)})
        if names and any(not isinstance(value, str) for row in values for value in row):
            raise InvalidArgument(f"labels are numbers or names of classes, not both: {names[0]!r} is a name")
        self.classes = names  # where labels are names
        self.longest_path_bytes = max(len(p.encode("utf-8")) for row in self._paths for p in row)

    def inline(self) -> Optional[List[str]]:
        """The lines if they are few, with paths as they were given."""
        if len(self._paths) > _MAX_INLINE_LINES:
            return None
        lines = ["\t".join(row) + labels for row, labels in zip(self._paths, self._labels)]
        return lines if sum(map(len, lines)) <= _MAX_INLINE_CHARACTERS else None

    def text(self, folder: str) -> Tuple[str, int]:
        """All lines with absolute paths, relative ones starting from `folder`; the longest path."""
        if any(c in folder for c in "\t\n\0"):
            raise InvalidArgument(
                f"no list can say {folder!r}, from which its paths start; move it"
            )
        rows = [tuple(os.path.join(folder, path) for path in row) for row in self._paths]
        longest = max(len(path.encode("utf-8")) for row in rows for path in row)
        lines = ("\t".join(row) + labels + "\n" for row, labels in zip(rows, self._labels))
        return "".join(lines), longest


def _plain(values: Any) -> Sequence[Any]:
    if hasattr(values, "tolist"):  # arrays
        values = values.tolist()
    if isinstance(values, (str, bytes)):
        raise InvalidArgument("paths and labels are lists, not one text")
    return list(values)


def _as_row(item: Any, count: int, what: str, index: int) -> Tuple[Any, ...]:
    if hasattr(item, "tolist"):
        item = item.tolist()
    row = tuple(item) if isinstance(item, (list, tuple)) else (item,)
    if len(row) != count:
        raise InvalidArgument(f"{what}[{index}] has {len(row)} values, but {count} are named")
    return row


def _path(value: Any, index: int) -> str:
    try:
        path = os.fspath(value)
    except TypeError:
        raise InvalidArgument(f"paths[{index}] is no path: {value!r}") from None
    path = os.fsdecode(path)
    where = f"paths[{index}], {path!r},"
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgument(f"{where} is not UTF-8; rename the file") from None
    if not path:
        raise InvalidArgument(f"paths[{index}] is empty")
    if path[-1] in _SPACE or any(c in path for c in "\t\n\0"):
        raise InvalidArgument(
            f"{where} holds a tab, an end of line or a zero, or ends with a blank, which no list "
            "can say; rename the file"
        )
    # A list takes these beginnings for something else.
    return "./" + path if path[0] in "#\"'\ufeff" + _SPACE else path


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _label(value: Any, index: int) -> Any:
    if hasattr(value, "item"):  # of NumPy
        value = value.item()
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return value
    if isinstance(value, float) and value - value == 0:  # finite
        return value
    if isinstance(value, str):
        if _is_number(value):
            raise InvalidArgument(f"labels[{index}] is a number as text, {value!r}: give numbers")
        if value and value == value.strip() and not any(c in value for c in "\t\n\0"):
            return value
        raise InvalidArgument(f"labels[{index}], {value!r}, is no name of a class: it is empty, or a list cannot say it")
    raise InvalidArgument(f"labels[{index}] is no number that a batch can hold: {value!r}")

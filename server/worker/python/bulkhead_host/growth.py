"""Which lines of Python code allocate what the stages of a worker keep (--trace-python), as tracemalloc sees it.

tracemalloc notes the line of every block that Python, or NumPy, allocates. At looks, ever further apart, the blocks
that are left are summed by stage and line, and what they grew by with each sample since an earlier look is reported.
Looks take at most a fiftieth of the time; with very many blocks left, tracing starts anew.
"""

from __future__ import annotations

import ast
import collections
import ctypes
import dis
import json
import linecache
import os
import sysconfig
import time
import tracemalloc
from typing import NamedTuple

FRAMES = 8  # of each block's stack
MOST_BLOCKS = 100_000  # a look takes some 150 bytes for each
_BYTES_OF_TRACE = 40  # of tracemalloc's tables for a block, about
_PAUSE = 50  # times the duration of a look
_LEAST_PAUSE = 0.25  # seconds
_LEAST_SAMPLES = 100  # between looks
_MOST_LOOKS = 16
_LINES = 3

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARY = tuple(path + os.sep for key, path in sysconfig.get_paths().items() if "stdlib" in key)
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class _Kept(NamedTuple):
    """The blocks that one line of one stage has left."""

    bytes: int = 0
    blocks: int = 0


class _Look(NamedTuple):
    samples: int
    kept: dict  # (stage's function, file, line) → _Kept
    tables: int  # bytes of tracemalloc's own


class _Extent(NamedTuple):
    """Where the function of a stage stands."""

    file: str
    first: int
    last: int


def _extent(function) -> _Extent | None:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    function = getattr(function, "func", function)  # of a functools.partial
    code = getattr(function, "__code__", None) or getattr(getattr(type(function), "__call__", None), "__code__", None)
    if code is None:
        return None
    lines = [line for _, line in dis.findlinestarts(code) if line]
    return _Extent(code.co_filename, code.co_firstlineno, max([code.co_firstlineno, *lines]))


def _is_users(file: str) -> bool:
    return not (file.startswith((*_LIBRARY, _OWN, "<")) or any(part in file for part in _INSTALLED))


class Growth:
    """Looks at the blocks after calls. Calls come one at a time."""

    def __init__(self, folders: list[str]):
        # Samples that the worker has done; it counts them itself.
        self.samples = ctypes.c_uint64(0)
        # Reports made so far. The worker reads it after every lease, without the interpreter's lock.
        self.count = ctypes.c_uint64(0)
        self._folders = folders
        self._text = b""
        self._stages: dict[str, _Extent | None] = {}
        self._looks: list[_Look] = []
        self._calls = 0
        self._due = 0.0
        self._functions: dict[str, list[tuple[int, int, str]]] = {}  # of a file: first and last line, name

    def add_stage(self, name: str, function) -> None:
        self._stages[name] = _extent(function)

    def after_call(self) -> None:
        """A stage has run. Tracing begins then: what imports hold does not grow."""
        if not tracemalloc.is_tracing():
            tracemalloc.start(FRAMES)
        self._calls += 1
        if self._calls % 16:
            return
        now = time.monotonic()
        if now < self._due or self._looks and self.samples.value - self._looks[-1].samples < _LEAST_SAMPLES:
            return
        self._look()
        took = time.monotonic() - now
        self._due = now + took + max(_LEAST_PAUSE, _PAUSE * took)

    def take(self, address: int, size: int) -> int:
        """Writes the last report as JSON. Returns the number of bytes; 0: there is none that fits."""
        text, self._text = self._text, b""
        if len(text) > size:
            return 0
        ctypes.memmove(address, text, len(text))
        return len(text)

    def _look(self) -> None:
        tables = tracemalloc.get_tracemalloc_memory()
        blocks = tables // _BYTES_OF_TRACE
        if blocks < 4 * MOST_BLOCKS:
            look = _Look(self.samples.value, self._kept(), tables)
            begun = self._looks[0].samples if self._looks else look.samples
            # Like the verdict, by the later half: what fills up first is no leak.
            half = begun + (look.samples - begun) // 2
            base = next((earlier for earlier in reversed(self._looks) if earlier.samples <= half), None)
            if base is not None:
                self._report(base, look)
            self._looks.append(look)
            if len(self._looks) > _MOST_LOOKS:
                del self._looks[1::2]
        if blocks > MOST_BLOCKS:
            tracemalloc.clear_traces()
            self._looks.clear()

    def _kept(self) -> dict:
        kept: dict = collections.defaultdict(_Kept)
        for statistic in tracemalloc.take_snapshot().statistics("traceback"):
            frames = [(frame.filename, frame.lineno) for frame in statistic.traceback]  # the oldest first
            place = self._place(frames)
            if place is None:
                continue
            had = kept[self._stage(frames), *place]
            kept[self._stage(frames), *place] = _Kept(had.bytes + statistic.size, had.blocks + statistic.count)
        return kept

    @staticmethod
    def _place(frames) -> tuple[str, int] | None:
        """The innermost line of the user's; otherwise of a library. None: it is the worker's own."""
        if any(file == __file__ for file, _ in frames):
            return None
        for file, line in reversed(frames):
            if _is_users(file):
                return file, line
        return next(((file, line) for file, line in reversed(frames) if not file.startswith(_OWN)), None)

    def _stage(self, frames) -> str:
        """The stage whose function is among the callers; empty: none that is known."""
        for name, extent in self._stages.items():
            if extent is None:
                continue
            for file, line in frames:
                if file == extent.file and extent.first <= line <= extent.last:
                    return name
        return next(iter(self._stages)) if len(self._stages) == 1 else ""

    def _report(self, base: _Look, look: _Look) -> None:
        samples = look.samples - base.samples
        if samples <= 0:
            return
        grown: dict = collections.defaultdict(list)
        blocks: dict = collections.Counter()
        for key in {**look.kept, **base.kept}:
            kept, had = look.kept.get(key, _Kept()), base.kept.get(key, _Kept())
            stage, file, line = key
            grown[stage].append(((kept.bytes - had.bytes) / samples, file, line))
            blocks[stage] += kept.blocks - had.blocks
        all_blocks = sum(count for count in blocks.values() if count > 0)
        tables = max(0, look.tables - base.tables) / samples
        stages = []
        for stage, lines in grown.items():
            lines.sort(reverse=True)
            stages.append(
                {
                    "code": stage,
                    "bytes_per_sample": max(0.0, sum(rate for rate, _, _ in lines)),
                    "tracing_bytes_per_sample": tables * max(0, blocks[stage]) / all_blocks if all_blocks else 0.0,
                    "lines": [
                        {
                            "file": self._name(file),
                            "line": line,
                            "function": self._function(file, line),
                            "bytes_per_sample": rate,
                        }
                        for rate, file, line in lines[:_LINES]
                        if rate > 0
                    ],
                }
            )
        self._text = json.dumps({"stages": stages}).encode()
        self.count.value += 1

    def _name(self, file: str) -> str:
        """The file as it is called below the folder that it is imported from."""
        inside = [folder for folder in self._folders if file.startswith(folder + os.sep)]
        return os.path.relpath(file, max(inside, key=len)) if inside else os.path.basename(file)

    def _function(self, file: str, line: int) -> str:
        """The innermost function that the line is in, "Rotate.__call__"; empty: in none, or the file cannot be read."""
        if file not in self._functions:
            try:
                tree = ast.parse("".join(linecache.getlines(file)))
            except (SyntaxError, ValueError, RecursionError):
                tree = ast.Module([], [])
            self._functions[file] = list(_functions(tree, ""))
            linecache.clearcache()
        inside = [entry for entry in self._functions[file] if entry[0] <= line <= entry[1]]
        return max(inside)[2] if inside else ""


def _functions(node, outer: str):
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        name = outer + child.name if named else outer
        if named and not isinstance(child, ast.ClassDef):
            yield child.lineno, child.end_lineno, name
        yield from _functions(child, name + "." if named else outer)

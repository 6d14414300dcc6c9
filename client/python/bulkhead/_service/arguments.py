"""The arguments of a Loader that are options of the service it starts."""

from __future__ import annotations

import numbers
import os
import re
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple, Union

from ..errors import InvalidArgument

Size = Union[int, str]
Folders = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


class Arguments(NamedTuple):
    """Each is the flag of bulkheadd with its name; None: the service's default."""

    workers: Union[int, str, None] = None
    threads: Optional[int] = None
    cache_dir: Optional[str] = None
    worker_quota: Optional[str] = None
    memory_budget: Optional[str] = None
    block_cache_bytes: Optional[str] = None
    coefficient_cache_bytes: Optional[str] = None
    worker_hang_timeout: Optional[float] = None
    sandbox: Optional[str] = None
    metrics: Optional[str] = None
    log_level: Optional[str] = None
    trace_python: Optional[str] = None
    native_path: Tuple[str, ...] = ()
    # The memory of a dataset (bulkhead._dataset.image), which its workers open. Its code may read what the user may.
    dataset: Tuple[str, ...] = ()

    def absolute(self) -> "Arguments":
        """The same from wherever the service is started."""
        folder = self.cache_dir and os.path.abspath(self.cache_dir)
        paths = tuple(map(os.path.abspath, self.native_path))
        return self._replace(cache_dir=folder, native_path=paths)

    def flags(self) -> List[str]:
        flags: List[str] = []
        if self.dataset:
            flags += ["--root", "/"]
        for name, value in self._asdict().items():
            for one in value if isinstance(value, tuple) else (value,):
                if one is not None:
                    flags += [_flag_of(name), str(one)]
        return flags

    def given(self) -> List[str]:
        """The names of those that are set."""
        return [name for name, value in self._asdict().items() if value not in (None, ())]


def _flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


_SIZES = ("worker_quota", "memory_budget", "block_cache_bytes", "coefficient_cache_bytes")


def checked(native_path: Optional[Folders] = None, trace_python: bool = False, **given: Any) -> Arguments:
    """Checks a Loader's arguments, and picks those that are here. InvalidArgument; the service names other wrong values."""
    _check_counts(**given)
    paths: Any = () if native_path is None else native_path
    if isinstance(paths, (str, os.PathLike)):
        paths = (paths,)
    own = {name: value for name, value in given.items() if name in Arguments._fields}
    own.update({name: _size(name, given.get(name)) for name in _SIZES})
    return Arguments(native_path=tuple(map(os.fspath, paths)), trace_python="on" if trace_python else None, **own)


# The bounds of bulkheadd (server/app/config.cc).
MOST_WORKERS, MOST_THREADS = 1024, 256


def _check_counts(workers: Any = None, threads: Any = None, **_: Any) -> None:
    if workers is not None and workers != "auto" and not _is_count(workers, MOST_WORKERS):
        raise InvalidArgument(
            f"workers is 'auto' (as many as the training loop needs), or a whole number from 1 to {MOST_WORKERS}, not {workers!r:.60}"
        )
    if threads is not None and not _is_count(threads, MOST_THREADS):
        raise InvalidArgument(f"threads is a whole number from 1 to {MOST_THREADS}, not {threads!r:.60}")


def _is_count(value: Any, most: int) -> bool:
    if isinstance(value, str):  # as on a command line
        value = int(value) if value.isdecimal() else 0
    return not isinstance(value, bool) and isinstance(value, numbers.Integral) and 1 <= value <= most


# As the service reads them (server/base/byte_size.cc).
_SIZE = re.compile("[0-9]+(?:B|KiB|MiB|GiB|TiB)")
_UNIT_OF_OTHERS = re.compile(r"([0-9]+) *([kmgt])i?b?", re.IGNORECASE)


def _size(name: str, value: Optional[Size]) -> Optional[str]:
    """The service's arguments. InvalidArgument for an invalid size, before a service is started."""
    if value is None or isinstance(value, str) and _SIZE.fullmatch(value):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        near = _UNIT_OF_OTHERS.fullmatch(value.strip()) if isinstance(value, str) else None
        meant = f"; did you mean '{near[1]}{near[2].upper()}iB'?" if near else ""
        raise InvalidArgument(
            f"{name} is a size such as '512MiB' (a whole number and B, KiB, MiB, GiB or TiB, without a "
            f"blank), or a number of bytes, not {value!r}{meant}"
        )
    return f"{value}B"


# What the reader of a message has in place of other flags, and of phrases with them.
_PHRASES = (
    ("a --root or a --python-path of the service", "a folder of the data or of sys.path"),
    ("a --python-path of the service", "a folder of sys.path"),
    ("with --python", "by starting this program with that one"),
    ("Run with --help for more information.", ""),
)
# For who has a bulkheadd to start, behind what a program can do.
_OWN_SERVICE = re.compile(r", or start bulkheadd --[a-z-]+ [^\s;]+")
_OTHERS = {
    "--python-path": "sys.path",
    "--worker-env": "the environment variable BULKHEAD_WORKER_ENV",
}
_START = re.compile(r"start bulkheadd with (?=(?:an? \w+ )?(--[a-z-]+))")
# "--native-path FOLDER" becomes "native_path=FOLDER", and "--sandbox=landlock" 'sandbox="landlock"'.
_FLAG = re.compile(r"(?<![\w-])(--[a-z]+(?:-[a-z]+)*)(?:=([a-z]+)\b|=| (?=[A-Z]{2}))?")


def _argument(flag: str) -> str:
    name = flag[2:].replace("-", "_")
    return f"{name}=" if name in Arguments._fields else ""


def in_arguments(text: str) -> str:
    """A message of an embedded service: options as arguments of the Loader, which its reader has.

    Options that a Loader has no argument for stay: they need a service of the reader's own.
    """
    for phrase, words in _PHRASES:
        text = re.sub(re.escape(phrase) + r"(?![\w-])", words, text)
    text = _OWN_SERVICE.sub("", text)
    text = _START.sub(lambda it: "give the Loader " if _argument(it[1]) else it[0], text)
    return _FLAG.sub(_in_python, text)


def _in_python(flag: "re.Match[str]") -> str:
    argument = _argument(flag[1])
    if not argument:
        return _OTHERS.get(flag[1], flag[0])
    return f'{argument}"{flag[2]}"' if flag[2] else argument

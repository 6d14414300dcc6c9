"""The user's modules as their files are now."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import sysconfig
import time
from types import ModuleType
from typing import Dict, Iterator

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Installed packages are not edited.
_LIBRARIES = [path for key, path in sysconfig.get_paths().items() if "lib" in key]
_NOT_USERS = tuple(os.path.realpath(path) + os.sep for path in (_PACKAGE, *_LIBRARIES))
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def fresh(name: str) -> ModuleType:
    """The module `name`, run anew; where another of the user's files was edited, with all that it imports.

    ModuleNotFoundError, and whatever the files raise.
    """
    importlib.invalidate_caches()
    known = sys.modules.get(name)
    started = _process_start()
    if not any(_changed(module, started) for module in _users().values() if module is not known):
        return importlib.reload(known) if known is not None else importlib.import_module(name)
    with _without_users(started):
        return importlib.import_module(name)


@contextlib.contextmanager
def _without_users(started: float) -> Iterator[None]:
    """Within it none of the user's modules is imported; behind it those are again that nothing imported anew."""
    before = _users()
    for name in before:
        del sys.modules[name]
    try:
        yield
    finally:
        anew = {name.partition(".")[0] for name in _users()}
        for name, module in before.items():
            if name.partition(".")[0] not in anew and not _changed(module, started):
                sys.modules[name] = module


def _users() -> Dict[str, ModuleType]:
    """The imported modules of source files of the user's, by name."""
    folders = tuple(os.path.join(os.path.realpath(entry or os.getcwd()), "") for entry in sys.path)
    found = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name == "__main__" or not isinstance(file, str) or not file.endswith(".py"):
            continue
        real = os.path.realpath(file)
        if real.startswith(folders) and not real.startswith(_NOT_USERS) and not any(part in real for part in _INSTALLED):
            found[name] = module
    return found


def _changed(module: ModuleType, started: float) -> bool:
    """Whether its file was written after this process had started, so maybe after it was imported."""
    try:
        return os.stat(str(module.__file__)).st_ctime >= started
    except OSError:  # it is gone
        return True


def _process_start() -> float:
    """In seconds since 1970, as the times of files are."""
    with open("/proc/self/stat", "rb") as stat:
        ticks = int(stat.read().rpartition(b")")[2].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age

"""The logs of embedded services, which survive them: a bounded number of bounded files."""

from __future__ import annotations

import os
import re
import stat
from typing import Optional

from .._words import LOG_IS
from ..errors import BulkheadError, LoaderClosed, SlotsExhausted, SpecError

_NAME = re.compile(r"embedded-\w+\.log")
_MOST_LOGS = 16  # the service bounds the size of each


def path_of(id: str, cache_dir: Optional[str]) -> str:
    """The log of the service with that id; empty where there can be none."""
    folder = _folder(cache_dir)
    return os.path.join(folder, f"embedded-{id}.log") if folder else ""


def _folder(cache_dir: Optional[str]) -> str:
    """In the cache folder that the service takes (server/app/server_config.cc)."""
    cache, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    if cache_dir is not None:
        base = os.path.abspath(cache_dir)
    elif cache or home:
        base = os.path.abspath(os.path.join(cache or os.path.join(home, ".cache"), "bulkhead"))
    else:
        return ""
    return os.path.join(base, "logs")


def new(id: str, cache_dir: Optional[str]) -> str:
    """`path_of` for a service that is about to start; makes room for it. Empty: it keeps no log."""
    path = path_of(id, cache_dir)
    return path if path and _make_room(os.path.dirname(path)) else ""


def name_in(error: BaseException, log: str) -> None:
    """Lets the error of a service end in where its log is; not that of a program or of a spec, of which no log knows more."""
    no_more = isinstance(error, (LoaderClosed, SlotsExhausted, SpecError))
    if isinstance(error, BulkheadError) and log and not no_more and log not in error.message and os.path.exists(log):
        error.message += f"{LOG_IS}{log}"
        error.args = (error.message,)


def _make_room(folder: str) -> bool:
    """Makes the folder, and removes the oldest logs; whether there can be another one."""
    try:
        _make(folder)
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return False
        logs = [os.path.join(folder, name) for name in os.listdir(folder) if _NAME.fullmatch(name)]
        logs.sort(key=_age)
        for old in logs[: max(len(logs) - _MOST_LOGS + 1, 0)]:
            os.unlink(old)
    except FileNotFoundError:
        return True  # another process was faster
    except OSError:
        return False
    return True


def _make(folder: str) -> None:
    """The folder and those above it, for this user alone: the service wants its cache so."""
    if os.path.isdir(folder):
        return
    _make(os.path.dirname(folder))
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass


def _age(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0

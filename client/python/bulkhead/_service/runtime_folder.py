"""Folders for the sockets of embedded services, and the removal of those that a crash left behind.

A folder is in use while somebody holds the lock on the file `lock` in it, or listens on its socket.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import socket
import stat
import tempfile
import time
from typing import Callable, Iterator, Sequence

from ..errors import ServiceStartFailed

_SOCKET_PATH_BYTES = 107  # what a socket's address holds
_LONGEST_NAME = len("/bulkhead-12345678/s.sock.arena")
_NAME = re.compile(r"bulkhead-\w{6,8}")  # of this client and of the C++ one, which makes no lock file
_CONTENTS = ("s.sock", "s.sock.arena", "s.sock.lock", "lock")
# A folder without a lock file may be one whose service is about to listen; until then it is left alone.
_UNLOCKED_SECONDS = 600.0


def parents(longest_name: int) -> Iterator[str]:
    """The folder in which folders for sockets are made, if a name of that length fits."""
    for parent in (os.environ.get("XDG_RUNTIME_DIR", ""), "/tmp"):
        if parent.startswith("/") and len(os.fsencode(parent)) + longest_name <= _SOCKET_PATH_BYTES:
            yield parent


class RuntimeFolder:
    """A new folder of mode 0700, locked until `remove`; a lock ends with its process, however."""

    def __init__(self) -> None:
        for parent in parents(_LONGEST_NAME):
            try:
                self.path = tempfile.mkdtemp(prefix="bulkhead-", dir=parent)  # mode 0700
            except OSError:
                continue
            try:
                lock = os.path.join(self.path, "lock")
                self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_SH)
                return
            except OSError:
                shutil.rmtree(self.path, ignore_errors=True)
        raise ServiceStartFailed(
            "cannot start a service: no folder for its socket can be made in /tmp"
        )

    def remove(self) -> None:
        """May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def remove_stale(among: Sequence[str] = ()) -> None:
    """Removes folders without users."""
    for_each_folder(_NAME, _remove_if_stale, among)


def for_each_folder(
    name: "re.Pattern[str]", act: Callable[[str], None], among: Sequence[str] = ()
) -> None:
    """Calls `act` with the path of each whose name matches in `among`, else wherever they are made.

    An OSError of it ends nothing: another process was faster, or it is not ours to touch.
    """
    for parent in among or parents(0):
        with contextlib.suppress(OSError):
            for entry in filter(name.fullmatch, os.listdir(parent)):
                with contextlib.suppress(OSError):
                    act(os.path.join(parent, entry))


def _remove_if_stale(path: str) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    lock = -1
    try:
        status = os.fstat(folder)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) != 0o700:
            return
        if not set(os.listdir(folder)) <= set(_CONTENTS):
            return
        with contextlib.suppress(FileNotFoundError):
            lock = os.open("lock", os.O_RDWR | os.O_NOFOLLOW, dir_fd=folder)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Also with a free lock: one who has just made the folder may be about to take it.
        if time.time() - status.st_mtime < _UNLOCKED_SECONDS and not _abandoned(folder, lock):
            return
        if listens(os.path.join(path, "s.sock")):
            return
        for name in _CONTENTS:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
        os.rmdir(path)
    finally:
        os.close(folder)
        if lock >= 0:
            os.close(lock)


def _abandoned(folder: int, lock: int) -> bool:
    """Whether a folder with a free lock ever held a service: its socket is made under the lock."""
    if lock < 0:
        return False
    try:
        return stat.S_ISSOCK(os.stat("s.sock", dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def listens(path: str) -> bool:
    """Whether a process listens at the socket, or may."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(path) not in (errno.ECONNREFUSED, errno.ENOENT)

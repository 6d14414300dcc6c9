"""Folders for keys, which end with their process, and the removal of those that a crash left behind."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile

from .._service import runtime_folder
from .._service.lock_file import LockFile
from ..errors import ServiceStartFailed

_PREFIX = "bulkhead-fleet-"
_NAME = re.compile(_PREFIX + r"\w{6,8}")
_LOCK = "lock"


class PrivateFolder:
    """A new folder of mode 0700, locked until `remove`; a lock ends with its process, however that ends."""

    def __init__(self) -> None:
        """ServiceStartFailed if none can be made."""
        runtime_folder.for_each_folder(_NAME, _remove_if_stale)
        for parent in runtime_folder.parents(0):
            with contextlib.suppress(OSError):
                made = tempfile.mkdtemp(prefix="." + _PREFIX, dir=parent)  # mode 0700
                self._lock = LockFile(os.path.join(made, _LOCK), os.O_CREAT | os.O_EXCL)
                self._lock.lock_shared()
                # Under its name it is found, and removed where nobody holds the lock.
                self.path = os.path.join(parent, os.path.basename(made)[1:])
                os.rename(made, self.path)
                return
        raise ServiceStartFailed("no folder for a fleet's certificates can be made in /tmp")

    def file(self, name: str) -> str:
        """The path of a file in it."""
        return os.path.join(self.path, name)

    def write(self, name: str, content: bytes) -> str:
        """Writes or replaces a file, whole or not at all, with mode 0600. Its path."""
        path = self.file(name)
        beside = path + ".new"
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
        os.replace(beside, path)
        return path

    def remove(self) -> None:
        """May be called twice."""
        _remove(self.path)
        self._lock.close()


def _remove(path: str) -> None:
    """The lock last: what is left of a removal that is killed is removed by the next."""
    with contextlib.suppress(OSError):
        for name in os.listdir(path):
            if name != _LOCK:
                os.unlink(os.path.join(path, name))
    shutil.rmtree(path, ignore_errors=True)


def _remove_if_stale(path: str) -> None:
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) != 0o700:
        return
    if not os.listdir(path):
        os.rmdir(path)
        return
    lock = LockFile(os.path.join(path, _LOCK))
    try:
        if lock.lock_exclusively():
            _remove(path)
    finally:
        lock.close()

"""Files whose locks show which processes live: the kernel drops a lock with its process, however that ends."""

from __future__ import annotations

import fcntl
import os
import threading
import weakref
from typing import Optional

# A fork waits for it: what is open in a child is in `_files`.
_changing = threading.RLock()
_files: "weakref.WeakSet[LockFile]" = weakref.WeakSet()


class LockFile:
    """One opening of a file, and its lock, which ends with `close`. Nothing here waits.

    A forked child has only a closed one, or it would keep its parent's lock. OSError as os.open.
    """

    def __init__(self, path: str, flags: int = 0, folder: Optional[int] = None):
        """`folder`: a descriptor of the folder, in case the path now leads elsewhere."""
        self.path = path
        self._fd = -1
        name = path if folder is None else os.path.basename(path)
        flags |= os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        with _changing:
            self._fd = os.open(name, flags, 0o600, dir_fd=folder)
            _files.add(self)

    def lock_shared(self) -> bool:
        return self._lock(fcntl.LOCK_SH)

    def lock_exclusively(self) -> bool:
        """False when another opening has any lock; then a shared one of this is gone, too."""
        return self._lock(fcntl.LOCK_EX)

    def _lock(self, kind: int) -> bool:
        try:
            fcntl.flock(self._fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def is_in_place(self) -> bool:
        """Whether its path still names it: it was neither removed nor replaced."""
        try:
            return os.path.samestat(os.fstat(self._fd), os.lstat(self.path))
        except OSError:
            return False

    def close(self) -> None:
        """May be called twice."""
        with _changing:
            fd, self._fd = self._fd, -1
            if fd < 0:
                return
            try:
                # A program that is being started has it open, too, for a moment.
                fcntl.flock(fd, fcntl.LOCK_UN)
            finally:
                os.close(fd)

    def _close_in_child(self) -> None:
        """The lock is one with the parent's, who keeps it."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # __init__ failed, or the interpreter is half gone
            pass


def _close_in_child() -> None:
    global _changing
    _changing = threading.RLock()
    for file in list(_files):
        file._close_in_child()


os.register_at_fork(
    before=lambda: _changing.acquire(),
    after_in_parent=lambda: _changing.release(),
    after_in_child=_close_in_child,
)

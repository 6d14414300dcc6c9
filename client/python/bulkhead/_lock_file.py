"""Files whose locks say who is there: the kernel drops a lock with its process, however that ends."""

from __future__ import annotations

import fcntl
import os
import threading
import weakref

_opening = threading.RLock()  # a fork waits for it: what is open in a child is in `_files`
_files: "weakref.WeakSet[LockFile]" = weakref.WeakSet()


class LockFile:
    """One opening of a file, and its lock, which ends with `close`. Nothing here waits.

    A forked child has only a closed one, or it would keep its parent's lock. OSError as os.open.
    """

    def __init__(self, path: str, flags: int = 0):
        self.path = path
        self._fd = -1
        with _opening:
            self._fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)
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
        """Whether its path still names it: nobody has removed or replaced it."""
        try:
            return os.path.samestat(os.fstat(self._fd), os.lstat(self.path))
        except OSError:
            return False

    def close(self) -> None:
        """May be called twice."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # __init__ failed, or the interpreter is half gone
            pass


def _close_in_child() -> None:
    global _opening
    _opening = threading.RLock()
    for file in list(_files):
        file.close()


os.register_at_fork(
    before=lambda: _opening.acquire(),
    after_in_parent=lambda: _opening.release(),
    after_in_child=_close_in_child,
)

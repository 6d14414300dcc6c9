"""Where the processes of one job on a host meet: a folder whose name each of them can tell.

It holds `spawn`, locked by the one who starts, joins, ends or removes; `current`, which service is
to be joined; and of each service, called by an ID: its socket, the socket of its arena door, what it
says (ID.log), and ID.lock. The processes that use a service have that locked together; a service that
can lock it alone has no users any more, and ends.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
import time
from typing import Callable, List, NamedTuple, Optional, Union

from ..errors import DeadlineExceeded, LoaderClosed
from .lock_file import LockFile
from .runtime_folder import for_each_folder, listens, parents

_NAME = re.compile(r"bulkhead-[0-9a-f]{16}")
_LONGEST_NAME = len("/bulkhead-0123456789abcdef/abcdef.sock.arena")
_PARTS = (".sock", ".sock.arena", ".sock.lock", ".log", ".lock")
_PART = re.compile(r"([0-9a-f]{6})\.(?:sock|sock\.arena|log|lock)")
_SPAWN, _CURRENT = "spawn", "current"
_MOST_CURRENT_BYTES = 4096
_POLL_SECONDS = 0.02


class CannotMeet(Exception):
    """There is no meeting folder that certainly belongs to this user alone; the text says why."""


class Current(NamedTuple):
    """What the starter of a service writes for the others."""

    id: str
    pid: int
    started: int  # of /proc/PID/stat: no other process of that number has it


def group_key() -> Optional[str]:
    """The identity of this process's job; None if it is in none."""
    run = os.environ.get("TORCHELASTIC_RUN_ID", "")
    if run not in ("", "none"):  # "none" is what torchrun calls each job that was given no id
        return "run " + run
    address, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    return f"master {address}:{port}" if address and port else None


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _surroundings() -> List[object]:
    """What makes a service of one process wrong for another: it would not see the same files, or
    would run on the CPUs or in the memory of the other."""
    return [
        os.geteuid(),
        _text("/proc/sys/kernel/random/boot_id"),
        _link("/proc/self/ns/pid"),
        _link("/proc/self/ns/mnt"),
        _text("/proc/self/cgroup"),
        sorted(os.sched_getaffinity(0)),
        [os.environ.get(name, "") for name in ("HOME", "XDG_CACHE_HOME")],  # the default cache folder
    ]


class Rendezvous:
    """The folder of one group and one kind of service, `command`; it need not exist."""

    def __init__(self, group: str, command: List[str]):
        facts = json.dumps([group, command, *_surroundings()])
        self.name = "bulkhead-" + hashlib.sha256(facts.encode()).hexdigest()[:16]

    def enter(self, until: float, cancelled: Callable[[], bool]) -> "Turn":
        """Waits for this process's turn. CannotMeet, DeadlineExceeded, LoaderClosed."""
        while True:
            folder = self._made_folder()
            turn = _try_to_enter(folder, os.O_CREAT)
            if isinstance(turn, Turn):
                return turn
            if cancelled():
                raise LoaderClosed("the loader is closed")
            if time.monotonic() >= until:
                raise DeadlineExceeded(
                    "another process that shares the embedded service had not started it in time, "
                    f"or is stopped ({turn})"
                )
            time.sleep(_POLL_SECONDS)

    def _made_folder(self) -> str:
        """Makes the folder if needed. It may be gone again by now, or belong to another service."""
        for parent in parents(_LONGEST_NAME):
            folder = os.path.join(parent, self.name)
            try:
                os.mkdir(folder, 0o700)
            except FileExistsError:
                pass
            except OSError:
                continue
            return folder
        raise CannotMeet("no folder can be made in $XDG_RUNTIME_DIR or /tmp")


def _is_own(status: os.stat_result) -> bool:
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and status.st_mode & 0o777 == 0o700
    )


def _try_to_enter(folder: str, flags: int) -> Union["Turn", str]:
    """Else why not yet. CannotMeet when the folder cannot be used.

    Others may make one of that name in /tmp while there is none. So `spawn` is opened in the very
    folder that was looked at; and while it is locked and in place, nobody can replace that.
    """
    try:
        spawn = _open_spawn(folder, flags)
    except FileNotFoundError:
        return f"{folder} is being removed"
    except OSError as error:
        raise CannotMeet(f"{folder} cannot be used: {error.strerror}") from None
    try:
        if not spawn.lock_exclusively():
            return f"{spawn.path} is locked"
        if not spawn.is_in_place() or not _is_own(os.lstat(folder)):
            return f"{folder} is being removed"
        turn, spawn = Turn(folder, spawn), None  # type: ignore[assignment]
        return turn
    except FileNotFoundError:
        return f"{folder} is being removed"
    except OSError as error:
        raise CannotMeet(f"{folder} cannot be used: {error.strerror}") from None
    finally:
        if spawn is not None:
            spawn.close()


def _open_spawn(folder: str, flags: int) -> LockFile:
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EACCES):
            raise _not_own(folder) from None
        raise
    try:
        if not _is_own(os.fstat(opened)):
            raise _not_own(folder)
        return LockFile(os.path.join(folder, _SPAWN), flags, opened)
    finally:
        os.close(opened)


def _not_own(folder: str) -> CannotMeet:
    return CannotMeet(f"{folder} is no folder of mode 0700 of this user")


class Turn:
    """While one process has the folder to itself; others wait. `with` it, or `close` it."""

    def __init__(self, folder: str, spawn: LockFile):
        self.folder = folder
        self._spawn = spawn

    def __enter__(self) -> "Turn":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self._spawn.close()

    def stem(self, id: str) -> str:
        return os.path.join(self.folder, id)

    def current(self) -> Optional[Current]:
        """None as well for one that was written in part, by a process that died. OSError."""
        try:
            with open(os.path.join(self.folder, _CURRENT), "rb") as file:
                id, pid, started = json.loads(file.read(_MOST_CURRENT_BYTES))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        sound = isinstance(id, str) and _PART.fullmatch(id + ".lock")
        if not sound or not isinstance(pid, int) or not isinstance(started, int) or pid <= 0:
            return None
        return Current(id, pid, started)

    def set_current(self, current: Current) -> None:
        with open(os.path.join(self.folder, _CURRENT), "w", encoding="ascii") as file:
            json.dump(list(current), file)

    def leave(self) -> None:
        """Like `sweep`, and removes the folder if nothing is left. OSError."""
        self.sweep()
        if set(os.listdir(self.folder)) <= {_SPAWN, _CURRENT}:
            _unlink(os.path.join(self.folder, _CURRENT))
            _unlink(self._spawn.path)  # last: who waits for it sees that it has gone
            try:
                os.rmdir(self.folder)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:  # somebody has just come
                    raise

    def sweep(self) -> None:
        """Removes what belongs to services without users. OSError."""
        names = os.listdir(self.folder)
        for id in {part[1] for part in map(_PART.fullmatch, names) if part is not None}:
            if not self._is_used(id):
                for part in _PARTS:
                    _unlink(self.stem(id) + part)

    def _is_used(self, id: str) -> bool:
        try:
            users = LockFile(self.stem(id) + ".lock")
        except FileNotFoundError:
            pass
        else:
            try:
                if not users.lock_exclusively():
                    return True
            finally:
                users.close()
        return listens(self.stem(id) + ".sock")


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def remove_stale() -> None:
    """Removes the folders that no process uses; those with unknown contents are left."""
    for_each_folder(_NAME, _remove_if_stale)


def _remove_if_stale(folder: str) -> None:
    if not _is_own(os.lstat(folder)):
        return
    names = os.listdir(folder)
    if not names:  # who has just made it makes it again
        os.rmdir(folder)
    elif all(name in (_SPAWN, _CURRENT) or _PART.fullmatch(name) for name in names):
        with contextlib.suppress(CannotMeet):
            turn = _try_to_enter(folder, 0)
            if isinstance(turn, Turn):
                with turn:
                    turn.leave()

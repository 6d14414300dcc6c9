"""An embedded service that the processes of one job on a host share."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import select
import signal
import subprocess
import threading
import time
import weakref
from typing import Callable, List, Optional

from ..errors import BulkheadError, DeadlineExceeded, LoaderClosed, OutOfThreads
from . import rendezvous as rendezvous_module, runtime_folder, service_log, service_process
from .lock_file import LockFile
from .rendezvous import CannotMeet, Current, Rendezvous, Turn
from .service_process import Options


class SharedService:
    """started, or joined → serving → released; the last process ends it and removes its folder.

    Each user has ID.lock locked together with the others, so that the service sees by itself when
    all of them are gone, however they ended. None of them is needed: the one that started it is only
    the one that reaps it. A forked child leaves its parent's services alone. Thread-safe.
    """

    def __init__(
        self,
        options: Options,
        rendezvous: Rendezvous,
        command: List[str],
        timeout: float,
        cancelled: Callable[[], bool],
    ):
        """Joins the running service, or starts one. Errors: those of starting, and CannotMeet."""
        self.options = options
        self.rendezvous = rendezvous
        self.command = command
        self.pid = 0
        self.target = ""
        self.holders = 0
        self._owner = os.getpid()
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._users: Optional[LockFile] = None
        self._log: Optional[int] = None
        self.log = ""  # the path of the log that survives the service
        self._letting_go = threading.Lock()
        until = time.monotonic() + timeout
        _check_pidfd()
        try:
            with rendezvous.enter(until, cancelled) as turn:
                if not self._join(turn, until, cancelled):
                    self._start(turn, until, cancelled)
        except BulkheadError:  # some are OSErrors, too
            raise
        except OSError as error:
            raise CannotMeet(f"{rendezvous.name} cannot be used: {error}") from None

    # With the folder to itself.

    def _join(self, turn: Turn, until: float, cancelled: Callable[[], bool]) -> bool:
        current = turn.current()
        pidfd = _open_process(current) if current is not None else None
        if current is None or pidfd is None:
            return False
        self._is(turn, current.id, current.pid, pidfd)
        try:
            users = LockFile(self._stem + ".lock")
        except FileNotFoundError:  # it is ending, and has begun to tidy up
            self._end(until, cancelled)
            return False
        try:
            # One that nobody uses would soon end by itself, were it not stuck; one that has the lock
            # for itself does end.
            if users.lock_exclusively() or not users.lock_shared():
                self._end(until, cancelled)
                return False
            with contextlib.suppress(FileNotFoundError):  # its last words are missed, and no more
                self._keep_log(os.open(self._stem + ".log", os.O_RDONLY | os.O_CLOEXEC))
            if self._ended():
                return False
            self._users, users = users, None  # type: ignore[assignment]
            return True
        finally:
            if users is not None:
                users.close()

    def _start(self, turn: Turn, until: float, cancelled: Callable[[], bool]) -> None:
        runtime_folder.remove_stale()
        rendezvous_module.remove_stale()
        turn.sweep()  # of the one before
        id = secrets.token_hex(3)
        stem = turn.stem(id)
        command = [*self.command, "--watch-lock", stem + ".lock", "--listen", f"unix:{stem}.sock"]
        log = service_log.new(id, self.options.arguments.cache_dir)
        if log:
            command += ["--log-file", log]
        users: Optional[LockFile] = None
        ready = -1
        try:
            users = LockFile(stem + ".lock", os.O_CREAT | os.O_EXCL)
            users.lock_shared()
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            output = os.open(stem + ".log", flags, 0o600)
            self._keep_log(output)
            self._process, ready = service_process.start(command, output)
            self._is(turn, id, self._process.pid, os.pidfd_open(self._process.pid))
            self.log = log
            _reap(self._process)
            timeout = max(until - time.monotonic(), 0.0)
            service_process.await_ready(ready, timeout, cancelled, self.post_mortem)
            turn.set_current(Current(id, self.pid, _start_time(self.pid)))
            self._users = users
        except BaseException as error:
            if self._process is not None:
                service_process.kill(self._process)
            service_log.name_in(error, log)
            if users is not None:
                users.close()
            with contextlib.suppress(OSError):  # the cause says more; the next one tidies up
                turn.leave()
            raise
        finally:
            if ready >= 0:
                os.close(ready)

    def _is(self, turn: Turn, id: str, pid: int, pidfd: int) -> None:
        self.pid = pid
        self._stem = turn.stem(id)
        path = service_log.path_of(id, self.options.arguments.cache_dir)
        self.log = path if os.path.exists(path) else ""
        self.target = f"unix:{self._stem}.sock"
        self._pidfd = pidfd
        weakref.finalize(self, os.close, pidfd).atexit = False

    def _keep_log(self, log: int) -> None:
        self._log = log  # the file may be removed before its end is read
        weakref.finalize(self, os.close, log).atexit = False

    # The process.

    def _wait(self, seconds: float) -> bool:
        """Whether it has ended by then."""
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        return bool(poller.poll(seconds * 1000))

    def _ended(self) -> bool:
        return self._wait(0)

    def _send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def _end(
        self, until: float = float("inf"), cancelled: Callable[[], bool] = lambda: False
    ) -> None:
        """TERM … KILL. DeadlineExceeded when it has not ended `until` then, LoaderClosed."""
        self._send(signal.SIGTERM)
        self._send(signal.SIGCONT)  # a stopped one would not hear of it
        kill_at = time.monotonic() + service_process.TERM_GRACE_SECONDS
        give_up_at = kill_at + service_process.KILL_GRACE_SECONDS
        killed = False
        while not self._wait(0.05):
            now = time.monotonic()
            if cancelled():
                raise LoaderClosed("the loader is closed")
            if now >= until:
                raise DeadlineExceeded("the embedded service did not end, to be replaced, in time")
            if now >= kill_at and not killed:
                self._send(signal.SIGKILL)
                killed = True
            if now >= give_up_at:
                return  # stuck in the kernel; it ends when the kernel releases it

    # Its user.

    def alive(self) -> bool:
        return self._owner == os.getpid() and not self._ended()

    def post_mortem(self) -> str:
        """How it ended, and its last words; empty while it runs."""
        # The connection breaks a little before the process has ended.
        if self._owner != os.getpid() or not self._wait(2.0):
            return ""
        code = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(2.0)
        words = b""
        if self._log is not None:
            size = os.fstat(self._log).st_size
            kept = service_process.LAST_WORDS_BYTES
            words = os.pread(self._log, kept, max(size - kept, 0))
        return service_process.how_it_ended(self.pid, code, words, self.log)

    def kill(self) -> None:
        """Kills it at once, if it is stuck. Its users notice, and one of them replaces it."""
        if self._owner == os.getpid() and not self._ended():
            self._send(signal.SIGKILL)
            self._wait(service_process.KILL_GRACE_SECONDS)

    def stop(self) -> None:
        """Releases it; the last process ends it and removes its folder. May be called twice."""
        if self._owner != os.getpid():
            return
        with self._letting_go:
            users, self._users = self._users, None
            if users is None:
                return
            try:
                patience = time.monotonic() + service_process.TERM_GRACE_SECONDS
                with self.rendezvous.enter(patience, lambda: False) as turn:
                    if users.lock_exclusively() or not users.lock_shared():
                        self._end()
                    users.close()
                    turn.leave()
            except (CannotMeet, DeadlineExceeded, OSError):
                pass  # it sees by itself when it has no users any more, and tidies up
            finally:
                users.close()


def _reap(process: "subprocess.Popen[bytes]") -> None:
    try:
        threading.Thread(target=process.wait, name="bulkhead-service", daemon=True).start()
    except RuntimeError as failure:
        raise OutOfThreads(f"the embedded service cannot be watched: {failure}") from None


def _check_pidfd() -> None:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError) as error:
        raise CannotMeet(f"processes cannot be watched here (pidfd_open: {error})") from None


def _start_time(pid: int) -> int:
    """When the process was started, in clock ticks; OSError if there is no such process."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[19])


def _open_process(current: Current) -> Optional[int]:
    """A descriptor of exactly this process, owned by the caller; None if it is gone. OSError: unknown."""
    try:
        pidfd = os.pidfd_open(current.pid)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        return None
    same = False
    try:
        same = _start_time(current.pid) == current.started
    except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
        pass
    finally:
        if not same:
            os.close(pidfd)
    return pidfd if same else None
